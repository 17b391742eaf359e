# expect: ok
from decimal import ROUND_HALF_UP, Decimal, getcontext, localcontext
from fractions import Fraction

CENT = Decimal("0.01")
items = [("Keyboard", 2, Decimal("49.90")), ("Cable", 5, Decimal("3.335")), ("Mouse", 1, Decimal("19.99"))]

net = Decimal(0)
for name, quantity, price in items:
    amount = (quantity * price).quantize(CENT, rounding=ROUND_HALF_UP)
    net += amount
    print(f"{name:<10}{quantity:>3} x {price:>7}{amount:>10}")
tax = (net * Decimal("0.19")).quantize(CENT, rounding=ROUND_HALF_UP)
print(f"{'Net':<10}{net:>23}\n{'Tax':<10}{tax:>23}\n{'Total':<10}{net + tax:>23}")

print(0.1 + 0.2 == 0.3, Decimal("0.1") + Decimal("0.2") == Decimal("0.3"))
with localcontext() as context:
    context.prec = 40
    print(Decimal(2).sqrt())
print(getcontext().prec, Fraction(3, 4) + Fraction(1, 6))
