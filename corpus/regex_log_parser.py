# presets: standard,data,open
import re
from collections import Counter, defaultdict

LOG = '''\
203.0.113.9 - - [10/Oct/2024:13:55:36 +0000] "GET /index.html HTTP/1.1" 200 2326
198.51.100.2 - bob [10/Oct/2024:13:55:40 +0000] "POST /login HTTP/1.1" 302 512
203.0.113.9 - - [10/Oct/2024:13:56:01 +0000] "GET /img/logo.png HTTP/1.1" 200 10240
192.0.2.77 - - [10/Oct/2024:13:56:30 +0000] "GET /admin HTTP/1.1" 403 199
garbage line that does not parse
198.51.100.2 - bob [10/Oct/2024:13:57:12 +0000] "GET /account?id=7 HTTP/1.1" 200 4310
192.0.2.77 - - [10/Oct/2024:13:57:13 +0000] "GET /admin/../etc/passwd HTTP/1.0" 400 -
'''

PATTERN = re.compile(
    r"""^(?P<ip>\d+(?:\.\d+){3})\s\S+\s(?P<user>\S+)\s
        \[(?P<when>[^\]]+)\]\s
        "(?P<method>[A-Z]+)\s(?P<path>\S+)\s[^"]+"\s
        (?P<status>\d{3})\s(?P<size>\d+|-)$""",
    re.VERBOSE,
)

statuses = Counter()
traffic = defaultdict(int)
bad = []
for number, line in enumerate(LOG.splitlines(), start=1):
    m = PATTERN.match(line)
    if not m:
        bad.append(number)
        continue
    statuses[m["status"]] += 1
    traffic[m["ip"]] += 0 if m["size"] == "-" else int(m["size"])
    if m["status"].startswith("4"):
        print(f"line {number}: {m['ip']} {m['method']} {m['path']} -> {m['status']}")

print("status codes:", dict(sorted(statuses.items())))
for ip, size in sorted(traffic.items(), key=lambda kv: kv[1], reverse=True):
    print(f"{ip:>15} {size:>8,} bytes")
print("unparsed lines:", bad)
