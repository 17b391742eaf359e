# expect: ok
import math


class Vector:
    def __init__(self, *components):
        self.components = tuple(components)

    def __add__(self, other):
        return Vector(*(a + b for a, b in zip(self, other)))

    def __mul__(self, k):
        return Vector(*(a * k for a in self)) if isinstance(k, (int, float)) else NotImplemented

    __rmul__ = __mul__

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self, other))

    def __abs__(self):
        return math.hypot(*self)

    def __iter__(self):
        return iter(self.components)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.components == other.components

    def __repr__(self):
        return f"Vector{self.components}"


v, w = Vector(3, 4), Vector(1, -2)
print(v + w, 2 * v, abs(v), v @ w, v == Vector(3, 4))
try:
    v * "x"
except TypeError as e:
    print("TypeError:", e)
