# presets: data,open
# needs: numpy,pandas
import json

import pandas as pd

payload = {
    "results": [
        {"id": 1, "user": {"name": "Ana", "geo": {"lat": 40.4, "lon": -3.7}}, "items": [{"sku": "a", "n": 2}, {"sku": "b", "n": 1}]},
        {"id": 2, "user": {"name": "Łucja", "geo": {"lat": 52.2, "lon": 21.0}}, "items": [{"sku": "a", "n": 5}]},
        {"id": 3, "user": {"name": "Kenji"}, "items": []},
    ]
}
flat = pd.json_normalize(payload["results"])
print(sorted(flat.columns))
print(flat[["id", "user.name", "user.geo.lat"]].to_string(index=False))
items = pd.json_normalize(payload["results"], record_path="items", meta=["id", ["user", "name"]])
print(items.to_string(index=False))
print(items.groupby("sku")["n"].sum().to_dict())

flat[["id", "user.name"]].to_json("users.json", orient="records", force_ascii=False)
print(open("users.json", encoding="utf-8").read())
back = pd.read_json("users.json")
print(back["user.name"].tolist(), json.loads(back.to_json(orient="split"))["columns"])
html = back.to_html(index=False)
print(html.count("<tr"), "Łucja" in html)
back.to_pickle("users.pkl")
print(pd.read_pickle("users.pkl").equals(back))
with open("lines.jsonl", "w", encoding="utf-8") as f:
    for i in range(3):
        f.write(json.dumps({"n": i, "sq": i * i}) + "\n")
print(pd.read_json("lines.jsonl", lines=True).values.tolist())
print(back.to_markdown.__name__, pd.DataFrame([[1, 2]], columns=["a", "b"]).to_csv(index=False).split())
