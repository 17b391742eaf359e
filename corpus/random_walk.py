# presets: standard,data,open
import random
from statistics import mean

random.seed(12345)


def walk(steps):
    x = y = 0
    seen = {(0, 0)}
    for _ in range(steps):
        dx, dy = random.choice([(0, 1), (0, -1), (1, 0), (-1, 0)])
        x, y = x + dx, y + dy
        seen.add((x, y))
    return (x * x + y * y) ** 0.5, len(seen)


for steps in (10, 100, 1000):
    results = [walk(steps) for _ in range(100)]
    print(f"{steps:>5} steps: mean distance {mean(r[0] for r in results):6.2f}, distinct cells {mean(r[1] for r in results):7.2f}")

deck = [r + s for s in "♠♥♦♣" for r in "A23456789TJQK"]
random.shuffle(deck)
print("hand:", " ".join(deck[:5]))
print("dice:", random.choices(range(1, 7), k=10), "weighted:", "".join(random.choices("HT", weights=[3, 1], k=20)))
print("sample:", sorted(random.sample(range(1, 50), 6)), f"gauss {random.gauss(0, 1):+.6f}")
state = random.getstate()
first = [random.random() for _ in range(3)]
random.setstate(state)
assert first == [random.random() for _ in range(3)]
print("state restored")
