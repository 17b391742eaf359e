# presets: standard,data,open
import re

SAMPLE = """
; global settings
debug = yes
name = "My App"   # trailing comment

[server]
host = 0.0.0.0
port = 8080
allowed = 10.0.0.1, 10.0.0.2

[server.tls]
enabled = off
timeout = 2.5
broken line here
"""


def convert(raw):
    raw = raw.strip()
    if raw.startswith('"') and raw.endswith('"'):
        return raw[1:-1]
    if raw.lower() in ("yes", "true", "on"):
        return True
    if raw.lower() in ("no", "false", "off"):
        return False
    if "," in raw:
        return [convert(p) for p in raw.split(",")]
    for kind in (int, float):
        try:
            return kind(raw)
        except ValueError:
            continue
    return raw


def parse(text):
    root, warnings = {}, []
    section = root
    for n, line in enumerate(text.splitlines(), 1):
        line = re.sub(r"\s[#;].*$", "", " " + line).strip()
        if not line:
            continue
        if m := re.fullmatch(r"\[([\w.]+)\]", line):
            section = root
            for part in m[1].split("."):
                section = section.setdefault(part, {})
        elif m := re.fullmatch(r"(\w+)\s*=\s*(.*)", line):
            section[m[1]] = convert(m[2])
        else:
            warnings.append(f"line {n}: cannot parse {line!r}")
    return root, warnings


config, warnings = parse(SAMPLE)
for key, value in config.items():
    print(key, "=", value)
print(*warnings, sep="\n")
assert config["server"]["tls"] == {"enabled": False, "timeout": 2.5}
