# presets: standard,data,open
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, getcontext, localcontext

print(0.1 + 0.2, Decimal("0.1") + Decimal("0.2"))
CENT = Decimal("0.01")


def round_money(x, mode=ROUND_HALF_UP):
    return x.quantize(CENT, rounding=mode)


items = [("Coffee beans 1 kg", Decimal("18.95"), 2), ("Filter papers", Decimal("3.49"), 5), ("Grinder", Decimal("129.00"), 1)]
net = Decimal(0)
for name, price, qty in items:
    line = price * qty
    net += line
    print(f"{name:<20}{qty:>3} x {price:>8} = {line:>9}")
tax = round_money(net * Decimal("0.19"))
print(f"{'net':<34}{net:>9}\n{'tax 19%':<34}{tax:>9}\n{'gross':<34}{net + tax:>9}")

print(round_money(Decimal("2.665")), round_money(Decimal("2.665"), ROUND_HALF_EVEN))

def split_bill(total, people):
    share = (total / people).quantize(CENT, rounding="ROUND_DOWN")
    rest = int((total - share * people) / CENT)
    return [share + CENT if i < rest else share for i in range(people)]

print([str(s) for s in split_bill(Decimal("100.00"), 7)])
with localcontext() as ctx:
    ctx.prec = 50
    print(Decimal(2).sqrt())
print(getcontext().prec, Decimal("1E+3").normalize(), Decimal("-0.00").is_zero())
