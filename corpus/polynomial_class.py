# presets: standard,data,open
from itertools import zip_longest


class Polynomial:
    def __init__(self, *coefficients):
        c = list(coefficients)
        while len(c) > 1 and c[-1] == 0:
            c.pop()
        self.c = c

    def __call__(self, x):
        result = 0
        for a in reversed(self.c):
            result = result * x + a
        return result

    def __add__(self, other):
        return Polynomial(*(a + b for a, b in zip_longest(self.c, other.c, fillvalue=0)))

    def __mul__(self, other):
        out = [0] * (len(self.c) + len(other.c) - 1)
        for i, a in enumerate(self.c):
            for j, b in enumerate(other.c):
                out[i + j] += a * b
        return Polynomial(*out)

    def __pow__(self, n):
        out = Polynomial(1)
        for _ in range(n):
            out = out * self
        return out

    def __eq__(self, other):
        return self.c == other.c

    def derivative(self):
        return Polynomial(*(i * a for i, a in enumerate(self.c) if i)) if len(self.c) > 1 else Polynomial(0)

    def __str__(self):
        terms = []
        for i, a in reversed(list(enumerate(self.c))):
            if a:
                sign = "-" if a < 0 else "+"
                body = "" if abs(a) == 1 and i else str(abs(a))
                power = "" if i == 0 else "x" if i == 1 else f"x^{i}"
                terms.append(f"{sign} {body}{power}")
        text = " ".join(terms) or "0"
        return text[2:] if text.startswith("+ ") else text.replace("- ", "-", 1)


p, q = Polynomial(-1, 0, 1), Polynomial(1, 1)
print(p, "|", q, "|", p + q, "|", p * q, "|", q**4)
print(p.derivative(), p(3), (p * q)(2), Polynomial(0))
assert p * q == q * p and (q**2)(10) == 121


def newton(f, x, steps=20):
    df = f.derivative()
    for _ in range(steps):
        x -= f(x) / df(x)
    return x


print(f"root of x^2-1: {newton(p, 5.0):.10f}; of x^3-2: {newton(Polynomial(-2, 0, 0, 1), 1.0):.10f}")
