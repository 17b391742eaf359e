# presets: standard,data,open
"""Unit conversion table, written as small pure functions with self-checks."""


def c_to_f(c: float) -> float:
    return c * 9 / 5 + 32


def f_to_c(f: float) -> float:
    return (f - 32) * 5 / 9


def c_to_k(c: float) -> float:
    if c < -273.15:
        raise ValueError("below absolute zero")
    return c + 273.15


assert c_to_f(100) == 212
assert f_to_c(-40) == -40
assert abs(f_to_c(c_to_f(36.6)) - 36.6) < 1e-9

print(f"{'°C':>8} {'°F':>8} {'K':>8}")
for c in range(-40, 121, 20):
    print(f"{c:>8} {c_to_f(c):>8.1f} {c_to_k(c):>8.2f}")

try:
    c_to_k(-300)
except ValueError as error:
    print("ValueError:", error)
