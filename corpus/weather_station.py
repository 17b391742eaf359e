# presets: standard,data,open
from dataclasses import dataclass
from datetime import datetime, timedelta
import math
import random
from itertools import groupby


@dataclass
class Reading:
    when: datetime
    celsius: float
    humidity: int

    @property
    def dew_point(self) -> float:
        g = math.log(self.humidity / 100) + 17.62 * self.celsius / (243.12 + self.celsius)
        return 243.12 * g / (17.62 - g)


def readings(days, seed=8):
    rng = random.Random(seed)
    start = datetime(2024, 7, 1)
    for hour in range(0, days * 24, 3):
        when = start + timedelta(hours=hour)
        base = 20 + 7 * math.sin((when.hour - 9) / 24 * 2 * math.pi) - hour / 24
        yield Reading(when, round(base + rng.uniform(-1, 1), 1), rng.randint(40, 90))


SPARK = "▁▂▃▄▅▆▇█"


def sparkline(values):
    low, high = min(values), max(values)
    return "".join(SPARK[int((v - low) / (high - low) * 7)] for v in values)


data = list(readings(4))
for day, group in groupby(data, key=lambda r: r.when.date()):
    group = list(group)
    temps = [r.celsius for r in group]
    print(f"{day:%a %d %b} min {min(temps):>5} max {max(temps):>5} {sparkline(temps)} dew {max(r.dew_point for r in group):.1f}")
hottest = max(data, key=lambda r: r.celsius)
print("hottest:", hottest.when.isoformat(sep=" ", timespec="minutes"), hottest.celsius)
print("trend:", sparkline([r.celsius for r in data]))
