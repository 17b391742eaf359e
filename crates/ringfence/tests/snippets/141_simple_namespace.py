# expect: ok
import json
from types import MappingProxyType, SimpleNamespace

text = '{"user": {"name": "Ann", "address": {"city": "Bergen"}}, "tags": ["a", "b"]}'
data = json.loads(text, object_hook=lambda d: SimpleNamespace(**d))
print(data.user.address.city, data.tags)

point = SimpleNamespace(x=1, y=2)
point.x += 10
print(point, point == SimpleNamespace(x=11, y=2), vars(point))

constants = MappingProxyType({"PI": 3.14})
try:
    constants["PI"] = 3
except TypeError as e:
    print("read-only:", e)


def to_dict(obj):
    if isinstance(obj, SimpleNamespace):
        return {k: to_dict(v) for k, v in vars(obj).items()}
    return obj


json.dumps(to_dict(data), sort_keys=True)
