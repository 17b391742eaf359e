# expect: ok
class Positive:
    def __set_name__(self, owner, name):
        self.name = name
        self.storage = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return getattr(instance, self.storage)

    def __set__(self, instance, value):
        if not isinstance(value, (int, float)) or value <= 0:
            raise ValueError(f"{self.name} must be a positive number, got {value!r}")
        setattr(instance, self.storage, value)

    def __delete__(self, instance):
        raise AttributeError(f"cannot delete {self.name}")


class Rectangle:
    width = Positive()
    height = Positive()

    def __init__(self, width, height):
        self.width, self.height = width, height


r = Rectangle(3, 4.5)
print(r.width * r.height)
for action in (lambda: setattr(r, "width", -1), lambda: delattr(r, "height")):
    try:
        action()
    except (ValueError, AttributeError) as e:
        print(type(e).__name__, e)
