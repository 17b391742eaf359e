# presets: standard,data,open
import math


def bisect(f, a, b, tol=1e-10):
    fa = f(a)
    while b - a > tol:
        m = (a + b) / 2
        if fa * f(m) <= 0:
            b = m
        else:
            a, fa = m, f(m)
    return (a + b) / 2


def newton(f, df, x, tol=1e-12, limit=50):
    for i in range(limit):
        step = f(x) / df(x)
        x -= step
        if abs(step) < tol:
            return x, i + 1
    raise ArithmeticError("no convergence")


def simpson(f, a, b, n=100):
    h = (b - a) / n
    return h / 3 * sum(f(a + i * h) * (1 if i in (0, n) else 4 if i % 2 else 2) for i in range(n + 1))


def rk4(f, y, t, h, steps):
    for _ in range(steps):
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h * k1 / 2)
        k3 = f(t + h / 2, y + h * k2 / 2)
        k4 = f(t + h, y + h * k3)
        y += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t += h
    return y


print(f"cos x = x at {bisect(lambda x: math.cos(x) - x, 0, 1):.8f}")
root, steps = newton(lambda x: x**2 - 2, lambda x: 2 * x, 1.0)
print(f"sqrt 2 = {root:.10f} in {steps} steps")
print(f"∫ sin over [0, π] = {simpson(math.sin, 0, math.pi):.8f}")
print(f"∫ e^(-x²) over [-5, 5] = {simpson(lambda x: math.exp(-x * x), -5, 5, 400):.8f}, √π = {math.sqrt(math.pi):.8f}")
print(f"y' = y from 1: {rk4(lambda t, y: y, 1.0, 0.0, 0.01, 100):.8f}, e = {math.e:.8f}")
for h in (0.1, 0.01, 0.001):
    print(f"derivative of x³ at 2 with h={h}: {((2 + h) ** 3 - (2 - h) ** 3) / (2 * h):.6f}")
