# presets: standard,data,open
import time
from datetime import timedelta


def human(seconds):
    """Format a duration the way people say it."""
    parts = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        n, seconds = divmod(int(seconds), size)
        if n:
            parts.append(f"{n} {unit}{'s' if n != 1 else ''}")
    if not parts:
        return "now"
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


for s in (0, 1, 59, 61, 3600, 3661, 90061, 10**6):
    print(f"{s:>8} {human(s):<48} {timedelta(seconds=s)}")

epoch = time.gmtime(0)
print(time.strftime("%Y-%m-%d %H:%M:%S", epoch), epoch.tm_yday, epoch.tm_wday)
print(time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(1_700_000_000)))

started = time.perf_counter()
total = sum(i * i for i in range(50_000))
elapsed = time.perf_counter() - started
assert 0 <= elapsed < 60
print("sum of squares:", total)
before = time.monotonic()
time.sleep(0.01)
assert time.monotonic() - before >= 0.009
print("slept")
