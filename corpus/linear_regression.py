# presets: standard,data,open
import math
import random
from statistics import fmean

rng = random.Random(0)
xs = [i / 4 for i in range(60)]
ys = [2.5 * x + 4 + rng.gauss(0, 1.5) for x in xs]


def fit(xs, ys):
    mx, my = fmean(xs), fmean(ys)
    sxy = sum((x - mx) * (y - my) for x, y in zip(xs, ys))
    sxx = sum((x - mx) ** 2 for x in xs)
    slope = sxy / sxx
    return slope, my - slope * mx


def r_squared(xs, ys, slope, intercept):
    my = fmean(ys)
    residual = sum((y - (slope * x + intercept)) ** 2 for x, y in zip(xs, ys))
    return 1 - residual / sum((y - my) ** 2 for y in ys)


def gradient_descent(xs, ys, rate=0.01, epochs=2000):
    a = b = 0.0
    n = len(xs)
    for _ in range(epochs):
        errors = [a * x + b - y for x, y in zip(xs, ys)]
        a -= rate * 2 * math.fsum(e * x for e, x in zip(errors, xs)) / n
        b -= rate * 2 * math.fsum(errors) / n
    return a, b


slope, intercept = fit(xs, ys)
print(f"closed form:      y = {slope:.4f}x + {intercept:.4f}  R² = {r_squared(xs, ys, slope, intercept):.4f}")
a, b = gradient_descent(xs, ys)
print(f"gradient descent: y = {a:.4f}x + {b:.4f}")
assert abs(a - slope) < 1e-3 and abs(b - intercept) < 1e-2
for x in (0, 5, 20):
    print(f"predict({x}) = {slope * x + intercept:.2f}")
