# presets: standard,data,open
from contextlib import ExitStack, contextmanager, suppress


class Transaction:
    def __init__(self, data):
        self.data = data

    def __enter__(self):
        self.backup = dict(self.data)
        return self.data

    def __exit__(self, exc_type, exc, tb):
        if exc_type is not None:
            self.data.clear()
            self.data.update(self.backup)
            print(f"rolled back because of {exc_type.__name__}: {exc}")
            return True
        print("committed")
        return False


@contextmanager
def section(name, depth=[0]):
    print("  " * depth[0] + f"<{name}>")
    depth[0] += 1
    try:
        yield name.upper()
    finally:
        depth[0] -= 1
        print("  " * depth[0] + f"</{name}>")


store = {"a": 1}
with Transaction(store) as s:
    s["b"] = 2
with Transaction(store) as s:
    s["c"] = 3
    s["a"] = s["missing"]
print(store)

with section("html"), section("body") as name:
    print("    inside", name)

with ExitStack() as stack:
    names = [stack.enter_context(section(n)) for n in ("x", "y", "z")]
    stack.callback(print, "callback runs first")
    print("open:", names)

with suppress(ZeroDivisionError):
    print(1 / 0)
print("done")
