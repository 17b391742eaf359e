import collections
import dataclasses
import datetime
import functools
import itertools
import json
import math
import re
import statistics


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0

    def length(self):
        return math.hypot(self.x, self.y)


@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def words(text):
    for match in re.finditer(r"\w+", text):
        yield match.group().lower()


counted = collections.Counter(words("one two two three three three"))
pairs = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
grouped = {size: list(group) for size, group in itertools.groupby(pairs, key=lambda pair: pair[1])}
record = json.loads(json.dumps({"pairs": pairs, "mean": statistics.mean(counted.values()), "none": None}))
lines = [f"{name:>8} {n:5.2f}" for name, n in record["pairs"]]
try:
    int("no number")
except ValueError as error:
    lines.append(str(error))
day = datetime.date(2024, 2, 28) + datetime.timedelta(days=fibonacci(4))
print("\n".join(lines)[:0], str(Point(3, 4.0).length())[:0], day.isoformat()[:0], sep="", end="")
[n * n for n in range(10)]
