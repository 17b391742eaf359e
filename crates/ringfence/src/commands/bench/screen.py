"""Summarise orders: the kind of program an agent writes to answer one question."""
import json
import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta


@dataclass
class Order:
    customer: str
    day: date
    items: list[tuple[str, int, float]] = field(default_factory=list)

    @property
    def total(self) -> float:
        return sum(count * price for _, count, price in self.items)


def load(text: str) -> list[Order]:
    orders = []
    for row in json.loads(text):
        day = date.fromisoformat(row["day"])
        items = [(i["name"], int(i["count"]), float(i["price"])) for i in row["items"]]
        orders.append(Order(row["customer"], day, items))
    return orders


def by_week(orders: list[Order]) -> dict[date, float]:
    weeks: dict[date, float] = defaultdict(float)
    for order in orders:
        monday = order.day - timedelta(days=order.day.weekday())
        weeks[monday] += order.total
    return dict(sorted(weeks.items()))


def outliers(values: list[float], limit: float = 2.5) -> list[float]:
    if len(values) < 3:
        return []
    mean, spread = statistics.mean(values), statistics.stdev(values)
    return [v for v in values if not math.isclose(spread, 0) and abs(v - mean) / spread > limit]


TEXT = """[
  {"customer": "ada", "day": "2024-03-04", "items": [{"name": "tea", "count": 2, "price": 3.5}]},
  {"customer": "bob", "day": "2024-03-12", "items": [{"name": "pen", "count": 10, "price": 0.4}]}
]"""

orders = load(TEXT)
names = Counter(name for order in orders for name, *_ in order.items)
for week, amount in by_week(orders).items():
    print(f"{week:%d %b}: {amount:>10.2f}")
print("most ordered:", names.most_common(3))
print("unusual:", outliers([order.total for order in orders]) or "none")
best = max(orders, key=lambda order: order.total, default=None)
if best is not None:
    print(f"best customer: {best.customer.title()} with {best.total:.2f}")
