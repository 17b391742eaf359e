# presets: standard,data,open
import json
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Part:
    sku: str
    colour: Colour
    made: date
    price: Decimal


class Encoder(json.JSONEncoder):
    def default(self, o):
        if is_dataclass(o):
            return {"__kind__": type(o).__name__, **asdict(o)}
        if isinstance(o, Enum):
            return o.value
        if isinstance(o, (date, datetime)):
            return o.isoformat()
        if isinstance(o, Decimal):
            return str(o)
        if isinstance(o, (set, frozenset)):
            return sorted(o)
        return super().default(o)


def revive(d):
    if d.get("__kind__") == "Part":
        return Part(d["sku"], Colour(d["colour"]), date.fromisoformat(d["made"]), Decimal(d["price"]))
    return d


part = Part("X-1", Colour.BLUE, date(2024, 5, 17), Decimal("10.50"))
text = json.dumps({"parts": [part], "tags": {"b", "a"}, "π": 3.14159}, cls=Encoder, indent=1, ensure_ascii=False)
print(text)
back = json.loads(text, object_hook=revive)
assert back["parts"][0] == part
print(back["parts"][0])
for bad in ("{'a': 1}", "[1, 2", '{"a": NaN}', ""):
    try:
        print("parsed", json.loads(bad))
    except json.JSONDecodeError as e:
        print(f"line {e.lineno} column {e.colno}")
try:
    json.dumps(object, cls=Encoder)
except TypeError as e:
    print("TypeError:", e)
print(json.dumps([1, 2.0, None, True, "é\n"], separators=(",", ":")))
