# presets: standard,data,open
import cmath
import math

z = 3 + 4j
print(z, abs(z), z.conjugate(), z * z.conjugate(), z.real, z.imag)
r, phi = cmath.polar(z)
print(f"polar: r={r:.3f} phi={math.degrees(phi):.3f}°")


def quadratic(a, b, c):
    d = cmath.sqrt(b * b - 4 * a * c)
    return (-b + d) / (2 * a), (-b - d) / (2 * a)


def fmt(v):
    return f"{v.real:.4g}" if abs(v.imag) < 1e-12 else f"{v.real:.4g}{v.imag:+.4g}i"


for coefficients in [(1, -3, 2), (1, 2, 5), (1, 0, 0), (2, 4, -6)]:
    print(coefficients, "->", ", ".join(fmt(x) for x in quadratic(*coefficients)))

roots = [cmath.exp(2j * math.pi * k / 6) for k in range(6)]
print("6th roots of unity:", [f"{w.real:+.3f}{w.imag:+.3f}j" for w in roots])
assert abs(sum(roots)) < 1e-12


def dft(xs):
    n = len(xs)
    return [sum(x * cmath.exp(-2j * cmath.pi * k * i / n) for i, x in enumerate(xs)) for k in range(n)]


signal = [math.sin(2 * math.pi * 2 * t / 16) + 0.5 * math.cos(2 * math.pi * 5 * t / 16) for t in range(16)]
magnitude = [round(abs(v), 3) for v in dft(signal)]
print(magnitude)
