# presets: data,open
import glob
import os
import re
from datetime import datetime, timedelta
from fnmatch import fnmatch

start = datetime(2024, 11, 1)
os.makedirs("logs", exist_ok=True)
for day in range(4):
    when = start + timedelta(days=day)
    with open(os.path.join("logs", f"app-{when:%Y%m%d}.log"), "w") as f:
        for i in range(50):
            level = "ERROR" if (i * 7 + day) % 13 == 0 else "INFO"
            ts = when + timedelta(minutes=i * 17)
            f.write(f"{ts.isoformat()} {level} request id={day * 100 + i} took {(i * 31 + day) % 250}ms\n")

LINE = re.compile(r"(?P<ts>\S+) (?P<level>\w+) request id=(?P<id>\d+) took (?P<ms>\d+)ms")
summary = {}
for path in sorted(glob.glob("logs/*.log")):
    errors, slowest = 0, (-1, "")
    with open(path) as f:
        for line in f:
            m = LINE.match(line)
            errors += m["level"] == "ERROR"
            slowest = max(slowest, (int(m["ms"]), m["id"]))
    summary[os.path.basename(path)] = errors, slowest

for name, (errors, (ms, rid)) in summary.items():
    print(f"{name}: {errors} errors, slowest {ms} ms (id {rid})")

oldest = sorted(n for n in os.listdir("logs") if fnmatch(n, "app-*.log"))[:2]
for name in oldest:
    os.rename(f"logs/{name}", f"logs/{name}.old")
print(sorted(os.listdir("logs")))
total = 0
for folder, dirs, files in os.walk("."):
    total += sum(os.path.getsize(os.path.join(folder, n)) for n in files)
print("bytes:", total)
print(os.path.splitext("a/b.tar.gz"), os.path.join("x", "..", "y"), os.path.normpath("x/../y"), os.path.relpath("logs/a", "logs"))
