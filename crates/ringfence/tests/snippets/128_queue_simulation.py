# expect: ok
import random
from collections import deque


def simulate(minutes, arrival, service, tellers, seed=1):
    rng = random.Random(seed)
    queue, busy, waits = deque(), [0] * tellers, []
    for minute in range(minutes):
        if rng.random() < arrival:
            queue.append(minute)
        busy = [max(0, b - 1) for b in busy]
        for i, b in enumerate(busy):
            if b == 0 and queue:
                waits.append(minute - queue.popleft())
                busy[i] = rng.randint(1, service)
    return waits, len(queue)


for tellers in (1, 2, 3):
    waits, left = simulate(480, arrival=0.4, service=6, tellers=tellers)
    print(f"{tellers} teller(s): {len(waits)} served, mean wait {sum(waits) / len(waits):.1f}, {left} still waiting")

rng = random.Random(5)
inside = sum(rng.random() ** 2 + rng.random() ** 2 <= 1 for _ in range(50_000))
print("pi is about", round(4 * inside / 50_000, 1))
