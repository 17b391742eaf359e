# presets: data,open
# needs: numpy
import numpy as np

rng = np.random.default_rng(1)
n = 300
X = np.vstack([rng.normal([-1.5, -1], 1, (n, 2)), rng.normal([1.5, 1], 1, (n, 2))])
y = np.repeat([0, 1], n)
idx = rng.permutation(2 * n)
train, test = idx[:450], idx[450:]
X = np.column_stack([np.ones(2 * n), (X - X.mean(0)) / X.std(0)])


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


w = np.zeros(3)
losses = []
for epoch in range(300):
    p = sigmoid(X[train] @ w)
    losses.append(float(-np.mean(y[train] * np.log(p) + (1 - y[train]) * np.log(1 - p))))
    w -= 0.5 * X[train].T @ (p - y[train]) / len(train)

print(f"loss {losses[0]:.4f} at the start, lower later: {losses[-1] < 0.3}")
assert all(a >= b for a, b in zip(losses, losses[1:]))
predicted = (sigmoid(X[test] @ w) > 0.5).astype(int)
accuracy = (predicted == y[test]).mean()
print("accuracy above 90%:", bool(accuracy > 0.9))
confusion = np.zeros((2, 2), dtype=int)
np.add.at(confusion, (y[test], predicted), 1)
print("confusion sums to", int(confusion.sum()), "diagonal dominates:", bool(np.trace(confusion) > confusion.sum() * 0.9))
print("both weights positive:", bool((w[1:] > 0).all()))
