# presets: standard,data,open
# Pure Python matrix helpers: multiply, transpose, determinant, inverse.
from fractions import Fraction


def matmul(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]


def transpose(m):
    return [list(r) for r in zip(*m)]


def determinant(m):
    if len(m) == 1:
        return m[0][0]
    total = 0
    for c, value in enumerate(m[0]):
        minor = [row[:c] + row[c + 1 :] for row in m[1:]]
        total += (-1) ** c * value * determinant(minor)
    return total


def inverse(m):
    n = len(m)
    aug = [[Fraction(v) for v in row] + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(m)]
    for col in range(n):
        pivot = next(r for r in range(col, n) if aug[r][col] != 0)
        aug[col], aug[pivot] = aug[pivot], aug[col]
        p = aug[col][col]
        aug[col] = [v / p for v in aug[col]]
        for r in range(n):
            if r != col and aug[r][col]:
                factor = aug[r][col]
                aug[r] = [x - factor * y for x, y in zip(aug[r], aug[col])]
    return [row[n:] for row in aug]


def show(title, m):
    print(title)
    for row in m:
        print("  " + " ".join(f"{str(v):>6}" for v in row))


A = [[2, 0, 1], [1, 3, 2], [1, 1, 1]]
B = [[1, 2, 3], [0, 1, 4], [5, 6, 0]]
show("A x B", matmul(A, B))
show("A^T", transpose(A))
print("det A =", determinant(A), " det B =", determinant(B))
inv = inverse(B)
show("B^-1", inv)
identity = matmul(B, inv)
assert identity == [[int(i == j) for j in range(3)] for i in range(3)]
print("B x B^-1 is the identity")
