# presets: standard,data,open
import csv
import io
from collections import defaultdict

DATA = """date,region,product,units,price
2024-01-03,North,Widget,10,2.50
2024-01-04,South,Gadget,3,19.99
2024-01-09,North,Gadget,1,19.99
2024-02-11,East,Widget,25,2.40
2024-02-12,South,Widget,7,2.50
2024-02-28,East,"Gizmo, large",2,105.00
2024-03-01,North,"Gizmo, large",1,99.00
"""

by_region = defaultdict(float)
by_product = defaultdict(lambda: {"units": 0, "revenue": 0.0})
by_month = defaultdict(float)

for row in csv.DictReader(io.StringIO(DATA)):
    revenue = int(row["units"]) * float(row["price"])
    by_region[row["region"]] += revenue
    by_product[row["product"]]["units"] += int(row["units"])
    by_product[row["product"]]["revenue"] += revenue
    by_month[row["date"][:7]] += revenue

print("Revenue by region")
for region, revenue in sorted(by_region.items(), key=lambda x: -x[1]):
    print(f"  {region:<8}{revenue:>10.2f}")
print("Products")
for product in sorted(by_product):
    p = by_product[product]
    print(f"  {product:<14}{p['units']:>5}{p['revenue']:>10.2f}")
print("Months:", {m: round(v, 2) for m, v in by_month.items()})

out = io.StringIO()
writer = csv.writer(out, lineterminator="\n")
writer.writerow(["product", "avg_price"])
for product, p in by_product.items():
    writer.writerow([product, round(p["revenue"] / p["units"], 2)])
print(out.getvalue(), end="")
