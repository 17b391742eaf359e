# presets: standard,data,open
# Which shipping applies? Rules as data, evaluated in order.
from typing import NamedTuple


class Order(NamedTuple):
    country: str
    weight: float
    total: float
    express: bool = False


RULES = [
    ("refuse", lambda o: o.weight > 30),
    ("express-domestic", lambda o: o.express and o.country == "DE"),
    ("express-abroad", lambda o: o.express),
    ("free", lambda o: o.total >= 100 and o.country in {"DE", "AT"}),
    ("letter", lambda o: o.weight <= 0.5),
    ("parcel", lambda o: True),
]
COST = {"refuse": None, "express-domestic": 12.9, "express-abroad": 39.0, "free": 0, "letter": 1.6, "parcel": 5.49}


def decide(order):
    return next(name for name, rule in RULES if rule(order))


orders = [
    Order("DE", 0.2, 15),
    Order("DE", 2, 150),
    Order("FR", 2, 150),
    Order("US", 1, 80, express=True),
    Order("DE", 1, 80, True),
    Order("AT", 31, 500),
]
for order in orders:
    method = decide(order)
    cost = COST[method]
    print(f"{order.country} {order.weight:>5} kg {order.total:>6} € -> {method:<17}", "not possible" if cost is None else f"{cost:.2f} €")
print(orders[0]._replace(weight=9), orders[0]._fields)
[decide(o) for o in orders]
