# expect: ok
import json
import os

DEFAULTS = {"debug": False, "retries": 3, "server": {"host": "localhost", "port": 8080}}


def load_config(path):
    if not os.path.exists(path):
        with open(path, "w") as f:
            json.dump(DEFAULTS, f, indent=2)
    with open(path) as f:
        return json.load(f)


config = load_config("config.json")
config["server"]["port"] = 9090
config["debug"] = True
with open("config.json", "w") as f:
    json.dump(config, f, indent=2, sort_keys=True)

try:
    json.loads('{"broken": ')
except json.JSONDecodeError as e:
    print(f"Invalid JSON: {e}")
print(json.dumps(load_config("config.json"), indent=2))
