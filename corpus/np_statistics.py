# presets: data,open
# needs: numpy
import numpy as np

rng = np.random.default_rng(42)
heights = rng.normal(170, 10, size=1000)
weights = heights * 0.9 - 90 + rng.normal(0, 8, size=1000)

print(f"height mean {heights.mean():.1f} std {heights.std(ddof=1):.1f}")
print("percentiles:", np.round(np.percentile(heights, [5, 50, 95]), 1).tolist())
print(f"correlation {np.corrcoef(heights, weights)[0, 1]:.3f}")

counts, edges = np.histogram(heights, bins=8, range=(130, 210))
for n, left in zip(counts, edges):
    print(f"{left:>5.0f} {'#' * (int(n) // 8)} {n}")
assert counts.sum() <= 1000

slope, intercept = np.polyfit(heights, weights, 1)
print(f"weight ≈ {slope:.3f}·height {intercept:+.1f}")

boot = np.array([rng.choice(heights, size=200).mean() for _ in range(300)])
low, high = np.percentile(boot, [2.5, 97.5])
print("true mean inside the bootstrap interval:", bool(low < 170 < high))
z = (heights - heights.mean()) / heights.std()
print("outliers beyond 3σ:", int((np.abs(z) > 3).sum()))
print("median of medians:", round(float(np.median([np.median(c) for c in np.array_split(heights, 10)])), 1))
