# presets: standard,data,open
"""Single-server queue: compare simulated waits with the M/M/1 formula."""
import heapq
import random


def simulate(arrival_rate, service_rate, customers, servers=1, seed=1):
    rng = random.Random(seed)
    clock = 0.0
    free = [0.0] * servers
    heapq.heapify(free)
    waits = []
    for _ in range(customers):
        clock += rng.expovariate(arrival_rate)
        server = heapq.heappop(free)
        start = max(clock, server)
        waits.append(start - clock)
        heapq.heappush(free, start + rng.expovariate(service_rate))
    return waits


def report(label, waits):
    waits = sorted(waits)
    n = len(waits)
    mean = sum(waits) / n
    print(f"{label:<24} mean {mean:7.3f}  p50 {waits[n // 2]:7.3f}  p95 {waits[int(n * 0.95)]:7.3f}  max {waits[-1]:8.3f}")
    return mean


print("utilisation 0.8")
one = report("one server", simulate(0.8, 1.0, 20_000))
theory = 0.8 / (1 - 0.8)
print(f"theory for one server    mean {theory:7.3f}")
two = report("two servers, half speed", simulate(0.8, 0.5, 20_000, servers=2))
pooled = report("two servers, full speed", simulate(0.8, 1.0, 20_000, servers=2))
assert pooled < two < one * 1.2
assert abs(one - theory) / theory < 0.25
