# expect: ok
for name in ["math", "random", "statistics"]:
    module = __import__(name)
    public = [n for n in dir(module) if not n.startswith("_")]
    print(f"{module.__name__}: {len(public) > 5}")

print(__import__("math").sqrt(2))
path = __import__("os.path", fromlist=["join"])
print(path.join("a", "b"))
now = __import__("datetime").datetime(2024, 1, 1)
print(now.isoformat())

try:
    __import__("not_a_real_module")
except ModuleNotFoundError as e:
    print(e.name, "is missing")
