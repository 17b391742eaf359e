# expect: ok
import math
from abc import ABC, ABCMeta, abstractmethod


class Shape(ABC):
    @abstractmethod
    def area(self):
        ...

    def describe(self):
        return f"{type(self).__name__} with area {self.area():.2f}"


class Circle(Shape):
    def __init__(self, radius):
        self.radius = radius

    def area(self):
        return math.pi * self.radius ** 2


class Drawable(metaclass=ABCMeta):
    @classmethod
    def __subclasshook__(cls, other):
        return any("draw" in vars(base) for base in other.__mro__)


class Pen:
    def draw(self):
        return "line"


print(Circle(2).describe())
try:
    Shape()
except TypeError as e:
    print("TypeError:", str(e)[:40])
print(issubclass(Pen, Drawable), issubclass(Circle, Drawable))
