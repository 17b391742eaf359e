# presets: data,open
"""Plugins by metaclass, by __init_subclass__ and typed fields by descriptors."""


class Registry(type):
    plugins = {}

    def __new__(mcls, name, bases, namespace):
        cls = super().__new__(mcls, name, bases, namespace)
        if bases:
            mcls.plugins[name.lower()] = cls
        return cls


class Exporter(metaclass=Registry):
    def export(self, rows):
        raise NotImplementedError


class Csv(Exporter):
    def export(self, rows):
        return "\n".join(",".join(map(str, r)) for r in rows)


class Html(Exporter):
    def export(self, rows):
        return "".join("<tr>" + "".join(f"<td>{c}</td>" for c in r) + "</tr>" for r in rows)


class Typed:
    def __init__(self, kind):
        self.kind = kind

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name)

    def __set__(self, obj, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name[1:]} must be {self.kind.__name__}, got {type(value).__name__}")
        setattr(obj, self.name, value)


class Shape:
    kinds = []

    def __init_subclass__(cls, /, sides=0, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.sides = sides
        Shape.kinds.append(cls.__name__)


class Triangle(Shape, sides=3):
    base = Typed(int)


for name, cls in sorted(Registry.plugins.items()):
    print(name, cls().export([(1, 2), (3, 4)]).replace("\n", "|"))
t = Triangle()
t.base = 4
print(t.base, t.sides, Shape.kinds, t.__dict__)
try:
    t.base = "wide"
except TypeError as e:
    print(e)
Dynamic = type("Dynamic", (Shape,), {"area": lambda self: 42}, sides=9)
print(Dynamic().area(), Dynamic.sides, [c.__name__ for c in Dynamic.__mro__])
print(getattr(t, "no" + "thing", "default"), sorted(vars(Triangle))[:1] != [])
