# presets: standard,data,open
import random
from math import dist

rng = random.Random(11)
centres = [(0, 0), (10, 10), (0, 12)]
points = [(cx + rng.gauss(0, 1.2), cy + rng.gauss(0, 1.2)) for cx, cy in centres for _ in range(25)]
rng.shuffle(points)


def kmeans(points, k, rng, rounds=50):
    means = [rng.choice(points)]
    while len(means) < k:  # farthest-point start
        means.append(max(points, key=lambda p: min(dist(p, m) for m in means)))
    for iteration in range(rounds):
        clusters = [[] for _ in range(k)]
        for p in points:
            clusters[min(range(k), key=lambda i: dist(p, means[i]))].append(p)
        new = [tuple(sum(axis) / len(c) for axis in zip(*c)) if c else m for c, m in zip(clusters, means)]
        if new == means:
            return means, clusters, iteration
        means = new
    return means, clusters, rounds


means, clusters, iterations = kmeans(points, 3, rng)
print("converged after", iterations, "iterations")
for mean, cluster in sorted(zip(means, clusters)):
    print(f"({mean[0]:6.2f}, {mean[1]:6.2f}) with {len(cluster)} points")
inertia = sum(dist(p, m) ** 2 for m, c in zip(means, clusters) for p in c)
print(f"inertia {inertia:.2f}")
