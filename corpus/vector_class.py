# presets: standard,data,open
import math
from functools import total_ordering


@total_ordering
class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x=0.0, y=0.0):
        self.x, self.y = x, y

    def __repr__(self):
        return f"Vector({self.x!r}, {self.y!r})"

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __sub__(self, other):
        return self + -other

    def __neg__(self):
        return Vector(-self.x, -self.y)

    def __mul__(self, k):
        if isinstance(k, Vector):
            return self.x * k.x + self.y * k.y
        if isinstance(k, (int, float)):
            return Vector(self.x * k, self.y * k)
        return NotImplemented

    __rmul__ = __mul__

    def __abs__(self):
        return math.hypot(self.x, self.y)

    def __bool__(self):
        return bool(self.x or self.y)

    def __iter__(self):
        yield self.x
        yield self.y

    def __eq__(self, other):
        return isinstance(other, Vector) and tuple(self) == tuple(other)

    def __lt__(self, other):
        return abs(self) < abs(other)

    def __hash__(self):
        return hash((self.x, self.y))

    def __format__(self, spec):
        if spec.endswith("p"):
            return f"<{abs(self):.3f}, {math.degrees(math.atan2(self.y, self.x)):.1f}°>"
        return f"({format(self.x, spec)}, {format(self.y, spec)})"


a, b = Vector(3, 4), Vector(-1, 2)
print(a + b, a - b, 2 * a, a * b, abs(a))
print(bool(Vector()), a == Vector(3, 4), a > b, sorted([a, b, Vector(0, 1)]))
print(f"{a:.2f} {a:p} {b:p}")
print(len({a, Vector(3, 4), b}), sum([a, b], Vector()))
try:
    a * "x"
except TypeError as e:
    print("TypeError:", e)
x, y = b
print(x, y)
