# presets: standard,data,open
import numbers
from decimal import Decimal
from fractions import Fraction
import math

values = [1, True, 2.5, 3 + 4j, Decimal("1.5"), Fraction(1, 3), "7", None, float("nan"), math.inf]


def classify(v):
    for kind in (numbers.Integral, numbers.Rational, numbers.Real, numbers.Complex, numbers.Number):
        if isinstance(v, kind):
            return kind.__name__
    return "not a number"


for v in values:
    print(f"{v!r:<18} {type(v).__name__:<10} {classify(v)}")

print(1 == 1.0 == Fraction(1) == Decimal(1), hash(1) == hash(1.0) == hash(Fraction(1)))
print(math.isclose(0.1 + 0.2, 0.3), 0.1 + 0.2 == 0.3, math.fsum([0.1] * 10))
print(7 // 2, -7 // 2, 7 % -3, divmod(-7, 2), math.trunc(-3.7), round(2.5), round(3.5), round(-1.15, 1))
print(2**100, (2**100).bit_length(), int("1010", 2), int("zz", 36), float("1e3"))
print((0.1).as_integer_ratio(), (0.5).hex(), Fraction(0.125), math.copysign(1, -0.0))
print(math.comb(10, 3), math.perm(5, 2), math.factorial(20), math.gcd(12, 18), math.dist((0, 0), (3, 4)))
nan = float("nan")
print(nan == nan, nan in [nan], sorted([3, math.inf, -math.inf, 0]))
