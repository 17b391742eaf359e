# presets: standard,data,open
import math
import random

rng = random.Random(1)
DATA = [((0, 0), 0), ((0, 1), 1), ((1, 0), 1), ((1, 1), 0)]
HIDDEN = 4
w1 = [[rng.uniform(-1, 1) for _ in range(3)] for _ in range(HIDDEN)]
w2 = [rng.uniform(-1, 1) for _ in range(HIDDEN + 1)]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def forward(x):
    inputs = (*x, 1)
    hidden = [sigmoid(sum(w * i for w, i in zip(row, inputs))) for row in w1] + [1]
    return inputs, hidden, sigmoid(sum(w * h for w, h in zip(w2, hidden)))


def train(rate=1.0):
    loss = 0.0
    for x, target in DATA:
        inputs, hidden, out = forward(x)
        error = out - target
        loss += error**2
        delta = error * out * (1 - out)
        for j in range(HIDDEN):
            dj = delta * w2[j] * hidden[j] * (1 - hidden[j])
            for k in range(3):
                w1[j][k] -= rate * dj * inputs[k]
        for j in range(HIDDEN + 1):
            w2[j] -= rate * delta * hidden[j]
    return loss / 4


first = train()
for epoch in range(6000):
    last = train()
assert last < first / 50, (first, last)
for x, target in DATA:
    print(x, "->", round(forward(x)[2]), "expected", target)
print("trained")
