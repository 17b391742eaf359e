# presets: standard,data,open
from abc import ABC, abstractmethod
import math


class Shape(ABC):
    @abstractmethod
    def area(self): ...

    @abstractmethod
    def perimeter(self): ...

    def describe(self):
        return f"{type(self).__name__:<10} area={self.area():8.3f} perimeter={self.perimeter():8.3f}"


class Rectangle(Shape):
    def __init__(self, w, h):
        self.w, self.h = w, h

    def area(self):
        return self.w * self.h

    def perimeter(self):
        return 2 * (self.w + self.h)


class Square(Rectangle):
    def __init__(self, side):
        super().__init__(side, side)


class Circle(Shape):
    def __init__(self, r):
        self.r = r

    @classmethod
    def from_diameter(cls, d):
        return cls(d / 2)

    def area(self):
        return math.pi * self.r**2

    def perimeter(self):
        return math.tau * self.r


class Triangle(Shape):
    def __init__(self, a, b, c):
        if not self.valid(a, b, c):
            raise ValueError(f"{a}, {b}, {c} is not a triangle")
        self.sides = (a, b, c)

    @staticmethod
    def valid(a, b, c):
        return a + b > c and a + c > b and b + c > a

    def area(self):
        s = self.perimeter() / 2
        return math.sqrt(s * math.prod(s - x for x in self.sides))

    def perimeter(self):
        return sum(self.sides)


shapes = [Rectangle(3, 4), Square(2.5), Circle.from_diameter(5), Triangle(3, 4, 5)]
for shape in sorted(shapes, key=lambda s: s.area()):
    print(shape.describe())
print("total area:", round(sum(s.area() for s in shapes), 3))
try:
    Shape()
except TypeError:
    print("Shape is abstract")
try:
    Triangle(1, 2, 9)
except ValueError as e:
    print(e)
