# expect: ok; needs numpy
import numpy as np

np.random.seed(0)
scores = np.random.normal(loc=70, scale=12, size=500).clip(0, 100)

print(f"mean {scores.mean():.2f}, std {scores.std(ddof=1):.2f}")
print("quartiles:", np.percentile(scores, [25, 50, 75]).round(1))

counts, edges = np.histogram(scores, bins=np.arange(30, 101, 10))
for count, low in zip(counts, edges):
    print(f"{int(low):>3}+ {'#' * (count // 5)} {count}")

x = np.linspace(0, 1, 50)
y = 3 * x + 2 + np.random.normal(0, 0.05, 50)
slope, intercept = np.polyfit(x, y, 1)
print(f"fit: y = {slope:.1f}x + {intercept:.1f}, r = {np.corrcoef(x, y)[0, 1]:.3f}")
