# presets: data,open
# needs: numpy
import numpy as np

A = np.array([[4.0, -2.0, 1.0], [-2.0, 4.0, -2.0], [1.0, -2.0, 4.0]])
b = np.array([11.0, -16.0, 17.0])

x = np.linalg.solve(A, b)
print("x =", np.round(x, 6).tolist())
assert np.allclose(A @ x, b)
print("det =", round(float(np.linalg.det(A)), 6), "rank =", int(np.linalg.matrix_rank(A)))

values = np.linalg.eigvalsh(A)
print("eigenvalues:", [f"{v:.5f}" for v in values])
L = np.linalg.cholesky(A)
assert np.allclose(L @ L.T, A)
print("cholesky diagonal:", [f"{v:.4f}" for v in np.diag(L)])

U, s, Vt = np.linalg.svd(np.arange(6.0).reshape(2, 3))
print("singular values:", [f"{v:.5f}" for v in s])
inverse = np.linalg.inv(A)
print("A·A⁻¹ = I:", bool(np.allclose(A @ inverse, np.eye(3))))
print("norms:", f"{np.linalg.norm(A):.5f} {np.linalg.norm(A, 1):.1f} {np.linalg.norm(A, np.inf):.1f}")
try:
    np.linalg.inv(np.ones((2, 2)))
except np.linalg.LinAlgError as e:
    print("LinAlgError:", e)
q, r = np.linalg.qr(A)
print("QR:", bool(np.allclose(q @ r, A)), "orthogonal:", bool(np.allclose(q.T @ q, np.eye(3))))
print(np.trace(A), np.outer([1, 2], [3, 4]).tolist(), int(np.dot([1, 2, 3], [4, 5, 6])), np.cross([1, 0, 0], [0, 1, 0]).tolist())
