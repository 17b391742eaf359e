# presets: standard,data,open
from pprint import pformat, pprint
import copy

data = {
    "users": [
        {"id": i, "name": n, "tags": [f"t{j}" for j in range(i)], "address": {"city": c, "zip": f"{i:05d}"}}
        for i, (n, c) in enumerate([("ana", "Lisboa"), ("bjørn", "Oslo"), ("çağla", "İzmir")], start=1)
    ],
    "meta": {"page": 1, "total": 3, "filters": {"active": True, "since": None}},
}

pprint(data, width=70)
pprint(data, depth=2, compact=True)
text = pformat(data["meta"], indent=4, width=30)
print(text)

shallow, deep = copy.copy(data), copy.deepcopy(data)
data["meta"]["page"] = 99
print(shallow["meta"]["page"], deep["meta"]["page"])


def walk(node, path=()):
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield path + (key,), value
        yield from walk(value, path + (key,))


deepest = max(walk(data), key=lambda pv: len(pv[0]))
print(len(list(walk(data))), "nodes; deepest:", deepest)
