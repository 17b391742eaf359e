# presets: data,open
# needs: numpy
import numpy as np

rng = np.random.default_rng(5)
truth = np.array([[0, 0], [8, 8], [0, 9]])
points = np.vstack([rng.normal(c, 0.8, (40, 2)) for c in truth])
order = rng.permutation(len(points))
points = points[order]


def kmeans(x, k, rounds=100):
    centres = [x[0]]
    for _ in range(1, k):
        d = np.min([np.sum((x - c) ** 2, axis=1) for c in centres], axis=0)
        centres.append(x[np.argmax(d)])
    centres = np.array(centres)
    for i in range(rounds):
        distances = np.linalg.norm(x[:, None] - centres[None], axis=2)
        labels = distances.argmin(axis=1)
        new = np.array([x[labels == j].mean(axis=0) for j in range(k)])
        if np.allclose(new, centres):
            break
        centres = new
    return centres, labels, i


centres, labels, rounds = kmeans(points, 3)
rank = np.lexsort((centres[:, 1], centres[:, 0].round()))
for j in rank:
    print(f"centre ({abs(centres[j, 0]):.0f}, {abs(centres[j, 1]):.0f}) size {int((labels == j).sum())}")
print("few rounds:", rounds < 10)
matches = [np.linalg.norm(centres - t, axis=1).min() for t in truth]
print("all centres found within 0.5:", bool(np.max(matches) < 0.5))
