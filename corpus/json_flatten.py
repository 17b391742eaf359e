# presets: standard,data,open
import json


def flatten(obj, prefix=""):
    """Yield (dotted path, leaf value) for a nested structure."""
    if isinstance(obj, dict):
        for key, value in obj.items():
            yield from flatten(value, f"{prefix}.{key}" if prefix else key)
    elif isinstance(obj, list):
        for i, value in enumerate(obj):
            yield from flatten(value, f"{prefix}[{i}]")
    else:
        yield prefix, obj


doc = json.loads("""
{
  "id": 42,
  "user": {"name": "Zoë", "emails": ["z@example.org", "zoe@example.com"], "active": true},
  "orders": [
    {"sku": "A-1", "qty": 2, "price": 9.5},
    {"sku": "B-7", "qty": 1, "price": null}
  ]
}
""")

flat = dict(flatten(doc))
for path, value in flat.items():
    print(f"{path:<22} = {json.dumps(value, ensure_ascii=False)}")

print(json.dumps(flat, sort_keys=True, indent=2, ensure_ascii=False)[:80], "...")
total = sum(o["qty"] * (o["price"] or 0) for o in doc["orders"])
print("total:", total)
