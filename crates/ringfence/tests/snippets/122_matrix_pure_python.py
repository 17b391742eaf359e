# expect: ok
from fractions import Fraction


def multiply(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]


def inverse(matrix):
    n = len(matrix)
    rows = [[Fraction(v) for v in row] + [Fraction(i == j) for j in range(n)] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = next((r for r in range(i, n) if rows[r][i] != 0), None)
        if pivot is None:
            raise ValueError("matrix is singular")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [a - rows[r][i] * b for a, b in zip(rows[r], rows[i])]
    return [row[n:] for row in rows]


m = [[2, 1, 0], [1, 3, 1], [0, 1, 4]]
inv = inverse(m)
for row in inv:
    print(" ".join(f"{str(v):>6}" for v in row))
print(multiply(m, inv) == [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
print([list(row) for row in zip(*m[::-1])])
