# expect: ok
class Tracked:
    def __init__(self):
        self.reads = {}
        self.value = 10

    def __getattribute__(self, name):
        if not name.startswith("_") and name != "reads":
            reads = super().__getattribute__("reads")
            reads[name] = reads.get(name, 0) + 1
        return super().__getattribute__(name)


class Proxy:
    def __init__(self, target):
        object.__setattr__(self, "_target", target)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_target"), name)

    def __setattr__(self, name, value):
        print(f"proxy sets {name}")
        setattr(self._target, name, value)


t = Tracked()
t.value
print(t.value + t.value, t.reads)
p = Proxy(t)
p.value = 11
print(p.value, t.reads, type(p).__name__)
