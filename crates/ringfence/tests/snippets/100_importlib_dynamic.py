# expect: ok
import importlib
import importlib.util
import sys

for name in ("json", "math", "os.path", "no_such_module_xyz"):
    try:
        module = importlib.import_module(name)
        print(name, "->", module.__name__, hasattr(module, "__file__") or name in sys.builtin_module_names)
    except ImportError as e:
        print(name, "->", e)

for name in ("csv", "numpyy"):
    print(name, "can be imported:", importlib.util.find_spec(name) is not None)
dumps = getattr(importlib.import_module("json"), "dumps")
print(dumps({"ok": True}), "json" in sys.modules)
importlib.reload(importlib.import_module("textwrap"))
