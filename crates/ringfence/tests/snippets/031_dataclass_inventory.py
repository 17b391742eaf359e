# expect: ok
import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import List


@dataclass(order=True)
class Item:
    price: float
    name: str = field(compare=False)
    tags: List[str] = field(default_factory=list, compare=False)

    def __post_init__(self):
        if self.price < 0:
            raise ValueError("price cannot be negative")


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


items = [Item(9.5, "lamp", ["home"]), Item(2.0, "pen"), Item(30.0, "chair")]
print([i.name for i in sorted(items)])
print(json.dumps([asdict(i) for i in items]))
print([f.name for f in fields(Item)])
p = replace(Point(1), y=5)
try:
    p.x = 3
except AttributeError as e:
    print(type(e).__name__, "-", e)
print(p, hash(p) == hash(Point(1, 5)))
