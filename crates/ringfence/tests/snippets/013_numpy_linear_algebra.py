# expect: ok; needs numpy
import numpy as np

# Solve 3x + y - z = 4, x - 2y + 4z = 9, 2x + 3y + z = 13
A = np.array([[3, 1, -1], [1, -2, 4], [2, 3, 1]], dtype=float)
b = np.array([4, 9, 13], dtype=float)

x = np.linalg.solve(A, b)
print("solution:", x.round(4))
print("check:", np.allclose(A @ x, b))
print("determinant:", round(float(np.linalg.det(A)), 4))

S = A @ A.T
values, vectors = np.linalg.eigh(S)
print("eigenvalues:", values.round(3))
print("rank:", np.linalg.matrix_rank(A), "condition:", round(float(np.linalg.cond(A)), 3))
try:
    np.linalg.inv(np.ones((2, 2)))
except np.linalg.LinAlgError as e:
    print("Error:", e)
