# expect: ok
import inspect


def area(width, height):
    # The unit is square metres.
    return width * height


def who_called():
    return inspect.stack()[1].function


def caller():
    return who_called()


source = inspect.getsource(area)
print(source)
print("lines:", len(source.splitlines()), "comment kept:", "# The unit" in source)
print("called by:", caller())
