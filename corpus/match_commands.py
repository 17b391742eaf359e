# presets: standard,data,open
# needs: python>=3.10
from dataclasses import dataclass


@dataclass
class Point:
    x: int
    y: int


def command(text):
    match text.split():
        case ["quit" | "exit"]:
            return "bye"
        case ["move", ("north" | "south" | "east" | "west") as direction]:
            return f"moving {direction}"
        case ["move", direction]:
            return f"cannot move {direction}"
        case ["drop", *items] if items:
            return f"dropping {len(items)}: {', '.join(items)}"
        case []:
            return "say something"
        case [verb, *_]:
            return f"unknown verb {verb!r}"


def where(shape):
    match shape:
        case Point(x=0, y=0):
            return "origin"
        case Point(x=0, y=y):
            return f"on the y axis at {y}"
        case Point(x=x, y=y) if x == y:
            return f"on the diagonal at {x}"
        case [Point() as a, Point() as b]:
            return f"segment {a.x},{a.y}..{b.x},{b.y}"
        case {"kind": "circle", "r": int() | float() as r, **rest}:
            return f"circle of radius {r} with {sorted(rest)}"
        case str() | bytes():
            return "text"
        case _:
            return "no idea"


for line in ["quit", "move north", "move up", "drop sword shield", "drop", "", "sing loudly"]:
    print(f"{line!r:<20} {command(line)}")
for shape in [Point(0, 0), Point(0, 7), Point(3, 3), [Point(1, 2), Point(3, 4)],
              {"kind": "circle", "r": 2.5, "color": "red"}, "hello", 42]:
    print(where(shape))
