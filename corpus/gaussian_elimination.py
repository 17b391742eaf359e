# presets: standard,data,open
def solve(a, b, eps=1e-12):
    """Solve a·x = b by Gaussian elimination with partial pivoting."""
    n = len(a)
    m = [row[:] + [rhs] for row, rhs in zip(a, b)]
    for col in range(n):
        pivot = max(range(col, n), key=lambda r: abs(m[r][col]))
        if abs(m[pivot][col]) < eps:
            raise ValueError("matrix is singular")
        m[col], m[pivot] = m[pivot], m[col]
        for r in range(col + 1, n):
            f = m[r][col] / m[col][col]
            for k in range(col, n + 1):
                m[r][k] -= f * m[col][k]
    x = [0.0] * n
    for r in range(n - 1, -1, -1):
        x[r] = (m[r][n] - sum(m[r][k] * x[k] for k in range(r + 1, n))) / m[r][r]
    return x


x = solve([[2, 1, -1], [-3, -1, 2], [-2, 1, 2]], [8, -11, -3])
print([round(v, 6) + 0.0 for v in x])

hilbert = [[1 / (i + j + 1) for j in range(5)] for i in range(5)]
rhs = [sum(row) for row in hilbert]
print("Hilbert 5:", [f"{v:.4f}" for v in solve(hilbert, rhs)])

try:
    solve([[1, 2], [2, 4]], [1, 2])
except ValueError as e:
    print("error:", e)

# Least squares fit of a parabola through noisy points.
points = [(0, 1.1), (1, 2.9), (2, 9.2), (3, 18.8), (4, 33.1), (5, 51.0)]
powers = [sum(px**k for px, _ in points) for k in range(5)]
normal = [[powers[i + j] for j in range(3)] for i in range(3)]
moments = [sum(py * px**k for px, py in points) for k in range(3)]
c = solve(normal, moments)
print("fit: " + " + ".join(f"{v:.3f}·x^{i}" for i, v in enumerate(c)))
print("residual:", round(sum((py - sum(v * px**i for i, v in enumerate(c))) ** 2 for px, py in points), 4))
