# presets: data,open
import csv
import os

FIELDS = ["id", "name", "salary", "department"]
employees = [
    {"id": 1, "name": "Åsa Lind", "salary": 52000, "department": "R&D"},
    {"id": 2, "name": 'Jean "JJ" Roux', "salary": 48500, "department": "Sales, EMEA"},
    {"id": 3, "name": "Mei Chen", "salary": 61000, "department": "R&D"},
]

with open("employees.csv", "w", newline="", encoding="utf-8") as f:
    writer = csv.DictWriter(f, FIELDS)
    writer.writeheader()
    writer.writerows(employees)

print(os.path.getsize("employees.csv"), "bytes")
with open("employees.csv", encoding="utf-8") as f:
    print(f.read().replace("\r\n", "\n"), end="")

with open("employees.csv", newline="", encoding="utf-8") as f:
    rows = [{**row, "id": int(row["id"]), "salary": int(row["salary"])} for row in csv.DictReader(f)]
assert rows == employees

for row in rows:
    row["salary"] = round(row["salary"] * 1.03)
rows.sort(key=lambda r: -r["salary"])
with open("raised.csv", "w", newline="", encoding="utf-8") as f:
    csv.DictWriter(f, FIELDS, delimiter="\t").writerows(rows)
with open("raised.csv", encoding="utf-8") as f:
    for line in f:
        print(line.rstrip().split("\t"))
with open("employees.csv", "a", newline="", encoding="utf-8") as f:
    csv.writer(f).writerow([4, "Ola", 1, "?"])
print(sum(1 for _ in open("employees.csv", encoding="utf-8")) - 1, "employees")
