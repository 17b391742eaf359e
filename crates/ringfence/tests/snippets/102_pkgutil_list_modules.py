# expect: ok
import importlib.metadata
import json
import pkgutil
import sys

print("Python", sys.version_info >= (3, 9))
print("modules of json:", sorted(m.name for m in pkgutil.iter_modules(json.__path__)))

top = {m.name for m in pkgutil.iter_modules()}
for name in ("csv", "sqlite3", "asyncio", "not_a_module"):
    print(f"{name:<14}{'available' if name in top else 'missing'}")

packages = sorted({(d.metadata["Name"] or "?").lower() for d in importlib.metadata.distributions()})
print("installed packages were listed:", isinstance(packages, list))
try:
    importlib.metadata.version("surely-not-installed")
except importlib.metadata.PackageNotFoundError as e:
    print("not installed:", e)
