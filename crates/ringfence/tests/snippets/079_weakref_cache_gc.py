# expect: ok
import gc
import sys
import weakref


class Image:
    def __init__(self, name):
        self.name = name
        self.parent = None

    def __del__(self):
        print("deleted", self.name)


cache = weakref.WeakValueDictionary()


def load(name):
    image = cache.get(name)
    if image is None:
        image = cache[name] = Image(name)
    return image


a = load("cat.png")
print(load("cat.png") is a, len(cache), sys.getrefcount(a) >= 2)
reference = weakref.ref(a, lambda _: print("callback"))
a.parent = a  # a cycle: only the collector can free it
del a
print("still there:", reference() is not None)
gc.collect()
print("after collect:", reference(), len(cache))
weakref.finalize(Image("temp.png"), print, "finalized")
