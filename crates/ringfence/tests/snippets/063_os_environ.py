# expect: ok
import os

home = os.environ.get("HOME", "/")
debug = os.getenv("APP_DEBUG", "0") == "1"
print("home is absolute:", os.path.isabs(home), "debug:", debug)

os.environ["APP_MODE"] = "test"
print(os.getenv("APP_MODE"), "APP_MODE" in os.environ)
print(os.path.expandvars("mode=$APP_MODE"), os.path.expanduser("~") == home)

app = {key: value for key, value in os.environ.items() if key.startswith("APP_")}
print(app)
del os.environ["APP_MODE"]
print(os.environ.get("APP_MODE"), len(os.environ.get("PATH", "").split(os.pathsep)) > 0)
