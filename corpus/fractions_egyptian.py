# presets: standard,data,open
from fractions import Fraction
from math import ceil


def egyptian(f):
    """Greedy decomposition of a fraction into unit fractions."""
    parts = []
    while f > 0:
        unit = Fraction(1, ceil(1 / f))
        parts.append(unit)
        f -= unit
    return parts


for f in (Fraction(2, 3), Fraction(4, 13), Fraction(5, 121), Fraction(7, 15)):
    parts = egyptian(f)
    assert sum(parts) == f
    print(f, "=", " + ".join(map(str, parts)))

harmonic = sum(Fraction(1, n) for n in range(1, 21))
print("H(20) =", harmonic, "≈", float(harmonic))


def continued(x, terms):
    out = []
    for _ in range(terms):
        out.append(int(x))
        x -= int(x)
        if not x:
            break
        x = 1 / x
    return out


pi = Fraction("3.14159265358979323846")
cf = continued(pi, 6)
print("continued fraction of pi:", cf)
for n in range(1, len(cf) + 1):
    value = Fraction(cf[n - 1])
    for a in reversed(cf[: n - 1]):
        value = a + 1 / value
    print(f"  {str(value):>14}  error {abs(float(value - pi)):.2e}")
print(pi.limit_denominator(1000))
