# expect: ok
import csv
from collections import defaultdict

rows = [
    {"region": "north", "product": "tea", "units": 14, "price": 3.5},
    {"region": "south", "product": "tea", "units": 9, "price": 3.5},
    {"region": "north", "product": "coffee", "units": 21, "price": 5.25},
    {"region": "south", "product": "coffee, ground", "units": 4, "price": 6.0},
]
with open("sales.csv", "w", newline="") as f:
    writer = csv.DictWriter(f, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)

revenue = defaultdict(float)
with open("sales.csv", newline="") as f:
    for row in csv.DictReader(f):
        revenue[row["region"]] += int(row["units"]) * float(row["price"])

for region, amount in sorted(revenue.items(), key=lambda item: item[1], reverse=True):
    print(f"{region:<10}{amount:>10.2f}")
