# expect: ok
import string
from string import Template

letter = Template("Dear $name,\nyour order #${order} of $$${amount} has been $status.\n")
orders = [
    {"name": "Ada", "order": 17, "amount": "12.50", "status": "shipped"},
    {"name": "Ben", "order": 18, "amount": "8.00"},
]
for order in orders:
    try:
        print(letter.substitute(order))
    except KeyError as e:
        print("missing field:", e)
        print(letter.safe_substitute(order))


class PercentTemplate(Template):
    delimiter = "%"


print(PercentTemplate("100$ for %who").substitute(who="you"))
print("{0.real:.1f} {name!r:>8} {items[0]}".format(3 + 4j, name="x", items=[1, 2]))
print(string.capwords("the quick fox"), string.ascii_lowercase[:5])
