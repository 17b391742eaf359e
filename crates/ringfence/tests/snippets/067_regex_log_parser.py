# expect: ok
import re
from collections import Counter

LOG = """\
192.0.2.1 - - [10/Oct/2023:13:55:36 +0000] "GET /index.html HTTP/1.1" 200 2326
192.0.2.7 - - [10/Oct/2023:13:56:01 +0000] "POST /login HTTP/1.1" 401 128
192.0.2.1 - - [10/Oct/2023:13:57:12 +0000] "GET /missing HTTP/1.1" 404 0
not a log line
"""
PATTERN = re.compile(
    r'^(?P<ip>[\d.]+) \S+ \S+ \[(?P<time>[^\]]+)\] '
    r'"(?P<method>[A-Z]+) (?P<path>\S+) [^"]*" (?P<status>\d{3}) (?P<size>\d+)$'
)
hits, statuses = Counter(), Counter()
for line in LOG.splitlines():
    m = PATTERN.match(line)
    if not m:
        print("skipped:", line)
        continue
    hits[m["ip"]] += 1
    statuses[int(m.group("status"))] += 1
print(hits.most_common(), dict(statuses))

text = "Write to ann@example.com or bob.b@mail.example.org, not to me@."
print(re.findall(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", text))
print(re.sub(r"(\d{4})-(\d\d)-(\d\d)", r"\3.\2.\1", "due 2024-03-09"), re.split(r"[;,]\s*", "a; b,c"))
