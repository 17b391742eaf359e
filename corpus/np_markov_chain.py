# presets: data,open
# needs: numpy
import numpy as np

STATES = ["sunny", "cloudy", "rainy"]
P = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.4, 0.4]])
assert np.allclose(P.sum(axis=1), 1)

for days in (1, 2, 7, 30):
    after = np.linalg.matrix_power(P, days)[0]
    print(f"after {days:>2} days:", " ".join(f"{s} {p:.4f}" for s, p in zip(STATES, after)))

values, vectors = np.linalg.eig(P.T)
stationary = np.real(vectors[:, np.argmax(np.real(values))])
stationary /= stationary.sum()
print("stationary:", [f"{p:.4f}" for p in stationary])
assert np.allclose(stationary @ P, stationary)

rng = np.random.default_rng(0)
state, visits = 0, np.zeros(3)
for _ in range(20_000):
    state = rng.choice(3, p=P[state])
    visits[state] += 1
print("simulation agrees:", bool(np.abs(visits / visits.sum() - stationary).max() < 0.02))

absorbing = np.array([[0.5, 0.5, 0, 0], [0.25, 0, 0.5, 0.25], [0, 0, 1, 0], [0, 0, 0, 1]])
Q, R = absorbing[:2, :2], absorbing[:2, 2:]
N = np.linalg.inv(np.eye(2) - Q)
print("expected steps:", np.round(N.sum(axis=1), 4).tolist())
print("absorbed where:", np.round(N @ R, 4).tolist())
