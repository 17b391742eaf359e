# presets: standard,data,open
from functools import lru_cache


@lru_cache(maxsize=None)
def length(n):
    if n == 1:
        return 1
    return 1 + length(n // 2 if n % 2 == 0 else 3 * n + 1)


best = max(range(1, 20_000), key=length)
print(f"longest chain below 20000 starts at {best} with {length(best)} terms")


def chain(n):
    while n != 1:
        yield n
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    yield 1


print("27 peaks at", max(chain(27)), "and takes", length(27) - 1, "steps")
print(" ".join(map(str, chain(12))))
histogram = {}
for n in range(1, 1001):
    histogram[length(n) // 20 * 20] = histogram.get(length(n) // 20 * 20, 0) + 1
for bucket, count in sorted(histogram.items()):
    print(f"{bucket:>4}-{bucket + 19:<4} {'*' * (count // 8)} {count}")
