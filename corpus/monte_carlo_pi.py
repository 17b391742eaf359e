# presets: standard,data,open
import random
import statistics

rng = random.Random(42)


def estimate_pi(samples):
    inside = 0
    for _ in range(samples):
        x, y = rng.random(), rng.random()
        if x * x + y * y <= 1.0:
            inside += 1
    return 4 * inside / samples


print("samples   estimate   error")
for n in (100, 1_000, 10_000, 100_000):
    pi = estimate_pi(n)
    print(f"{n:>7}   {pi:.6f}   {abs(pi - 3.141592653589793):.6f}")

runs = [estimate_pi(2_000) for _ in range(30)]
print(f"30 runs of 2000: mean={statistics.mean(runs):.4f} stdev={statistics.stdev(runs):.4f}")
print(f"range: {min(runs):.3f} .. {max(runs):.3f}")
