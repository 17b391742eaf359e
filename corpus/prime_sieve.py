# presets: standard,data,open
import math


def sieve(limit):
    flags = bytearray([1]) * (limit + 1)
    flags[0:2] = b"\x00\x00"
    for i in range(2, math.isqrt(limit) + 1):
        if flags[i]:
            flags[i * i :: i] = bytes(len(range(i * i, limit + 1, i)))
    return [i for i, f in enumerate(flags) if f]


primes = sieve(100_000)
print("Number of primes below 100000:", len(primes))
print("First 15:", primes[:15])
print("Last 5:", primes[-5:])

twins = [(p, q) for p, q in zip(primes, primes[1:]) if q - p == 2]
print("Twin prime pairs:", len(twins), "largest:", twins[-1])

gaps = {}
for p, q in zip(primes, primes[1:]):
    gaps.setdefault(q - p, p)
print("First occurrence of each gap up to 20:")
for gap in sorted(g for g in gaps if g <= 20):
    print(f"  gap {gap:>2} after {gaps[gap]}")
