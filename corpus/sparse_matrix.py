# presets: standard,data,open
from collections import defaultdict


class Sparse:
    def __init__(self, rows, cols, entries=None):
        self.shape = rows, cols
        self.data = {k: v for k, v in (entries or {}).items() if v}

    def __getitem__(self, key):
        r, c = key
        if not (0 <= r < self.shape[0] and 0 <= c < self.shape[1]):
            raise IndexError(f"{key} outside {self.shape}")
        return self.data.get(key, 0)

    def __setitem__(self, key, value):
        self[key]
        if value:
            self.data[key] = value
        else:
            self.data.pop(key, None)

    def __matmul__(self, other):
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"shapes {self.shape} and {other.shape} do not fit")
        by_row = defaultdict(list)
        for (r, c), v in other.data.items():
            by_row[r].append((c, v))
        out = defaultdict(int)
        for (r, k), v in self.data.items():
            for c, w in by_row[k]:
                out[r, c] += v * w
        return Sparse(self.shape[0], other.shape[1], out)

    @property
    def T(self):
        return Sparse(self.shape[1], self.shape[0], {(c, r): v for (r, c), v in self.data.items()})

    def __repr__(self):
        return "\n".join(" ".join(f"{self[r, c]:>3}" for c in range(self.shape[1])) for r in range(self.shape[0]))


a = Sparse(3, 4, {(0, 0): 2, (1, 3): -1, (2, 1): 5})
b = Sparse(4, 2, {(0, 1): 3, (3, 0): 4, (1, 1): 1})
print(a @ b)
print((a @ b).T.shape, len(a.data))
a[0, 0] = 0
print(len(a.data), a[1, 3])
for bad in (lambda: a[9, 9], lambda: a @ a):
    try:
        bad()
    except (IndexError, ValueError) as e:
        print(type(e).__name__, e)
