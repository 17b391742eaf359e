from dataclasses import dataclass, asdict, replace
from enum import Enum, IntFlag, auto
import json


class Kind(Enum):
    NUMBER = auto()
    NAME = auto()

    @property
    def label(self):
        return self.name.lower()


class Mode(IntFlag):
    READ = 4
    WRITE = 2


@dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int = 0

    def __post_init__(self):
        object.__setattr__(self, "norm", abs(self.x) + abs(self.y))

    def __add__(self, other):
        return replace(self, x=self.x + other.x, y=self.y + other.y)

    __radd__ = __add__


def describe(value):
    match value:
        case None:
            return "nothing"
        case bool(flag):
            return f"flag {flag}"
        case int() | float() as number if number < 0:
            return f"negative {number}"
        case [first, *rest]:
            return f"list of {1 + len(rest)} from {first}"
        case {"type": "point", "x": x, **others}:
            return f"point {x} {sorted(others)}"
        case Point(x=0, y=y):
            return f"on the axis at {y}"
        case Point(x, y):
            return f"at {x}, {y}"
        case Kind.NAME:
            return "a name"
        case str(text):
            return text
        case _:
            return type(value).__name__


for value in (None, True, -2, [1, 2], {"type": "point", "x": 1, "y": 2}, Point(0, 3), Point(1, 2), Kind.NAME, "s", 1j):
    print(describe(value))
print(json.dumps(asdict(Point(1) + Point(2, 2)), indent=2, sort_keys=True), Mode.READ | Mode.WRITE)
