# presets: data,open
import sys
import traceback
import warnings
import weakref
import contextvars
import gc


def level3(x):
    return 10 // x


def level2(x):
    return level3(x - 1)


def level1(x):
    try:
        return level2(x)
    except ZeroDivisionError as e:
        raise RuntimeError("level1 failed") from e


try:
    level1(1)
except RuntimeError as e:
    frames = traceback.extract_tb(e.__cause__.__traceback__)
    print([f.name for f in frames], "->", traceback.format_exception_only(type(e), e)[0].strip())
    print(type(sys.exc_info()[1]).__name__)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("old function", DeprecationWarning)
    warnings.warn("careful")
    print([(w.category.__name__, str(w.message)) for w in caught])


class Node:
    def __init__(self, name):
        self.name = name


node = Node("temp")
ref = weakref.ref(node, lambda r: print("collected"))
cache = weakref.WeakValueDictionary(temp=node)
print(ref().name, len(cache))
del node
gc.collect()
print(ref(), len(cache))

user = contextvars.ContextVar("user", default="nobody")


def whoami():
    return user.get()


ctx = contextvars.copy_context()
ctx.run(user.set, "alice")
print(whoami(), ctx.run(whoami))
finalizer = weakref.finalize(level1, print, "finalised")
finalizer()
