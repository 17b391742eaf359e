# presets: data,open
# needs: numpy
import numpy as np

a = np.arange(12).reshape(3, 4)
print(a)
print("shape", a.shape, "ndim", a.ndim, "sum", int(a.sum()))
print("column means", a.mean(axis=0).tolist())
print("row max", a.max(axis=1).tolist())
print("slice\n", a[1:, ::2])
print("mask", a[a % 3 == 0].tolist())
b = a.T.copy()
b[0] = -1
print(a[0, 0], b[0, 0])
print("broadcast\n", a + np.array([100, 200, 300])[:, None])
print(np.where(a > 5, a, 0).tolist())
print(np.concatenate([a, a[:1]]).shape, np.vstack([a, a]).shape, np.hstack([a, a]).shape)
print(np.linspace(0, 1, 5).tolist(), np.eye(2).tolist(), np.zeros(3, dtype=int).tolist())
print(np.unique([3, 1, 3, 2, 1], return_counts=True)[1].tolist())
print(np.argsort([30, 10, 20]).tolist(), int(np.argmax([1, 9, 3])))
print(np.cumsum([1, 2, 3, 4]).tolist(), np.diff([1, 4, 9, 16]).tolist())
print(a.dtype.kind, a.astype(float).dtype.name, np.array([1, 2.5]).dtype.name)
