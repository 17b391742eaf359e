# expect: ok
import sys


class Slotted:
    __slots__ = ("x", "y", "__weakref__")

    def __init__(self, x, y):
        self.x = x
        self.y = y


class Plain:
    def __init__(self, x, y):
        self.x = x
        self.y = y


class Child(Slotted):
    __slots__ = ("z",)


p, q = Slotted(1, 2), Plain(1, 2)
try:
    p.color = "red"
except AttributeError as e:
    print("AttributeError:", "color" in str(e))
print(hasattr(p, "__dict__"), hasattr(q, "__dict__"), Child.__slots__ + Slotted.__slots__)
print("smaller:", sys.getsizeof(p) < sys.getsizeof(q) + sys.getsizeof(q.__dict__))
c = Child(3, 4)
c.z = 5
print({name: getattr(c, name) for cls in type(c).__mro__ for name in getattr(cls, "__slots__", ()) if name in "xyz"})
