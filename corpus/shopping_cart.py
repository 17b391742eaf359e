# presets: standard,data,open
from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Dict


@dataclass(frozen=True)
class Product:
    sku: str
    title: str
    cents: int


@dataclass
class Cart:
    lines: Dict[Product, int] = field(default_factory=dict)
    coupon: str = ""

    def add(self, product: Product, qty: int = 1) -> Cart:
        self.lines[product] = self.lines.get(product, 0) + qty
        if self.lines[product] <= 0:
            del self.lines[product]
        return self

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __ior__(self, other: Cart) -> Cart:
        for product, qty in other.lines.items():
            self.add(product, qty)
        return self

    def subtotal(self) -> int:
        return sum(p.cents * q for p, q in self.lines.items())

    def total(self) -> int:
        total = self.subtotal()
        if self.coupon == "TEN":
            total -= total // 10
        shipping = 0 if total >= 5000 else 499
        return total + shipping


tea = Product("T1", "Grüntee", 899)
pot = Product("P1", "Teekanne", 3450)
cheap = replace(pot, sku="P2", cents=1999)

cart = Cart().add(tea, 2).add(pot)
print(cart.subtotal(), cart.total())
saved = copy.deepcopy(cart)
cart.coupon = "TEN"
cart |= Cart().add(tea).add(cheap)
for product, qty in cart.lines.items():
    print(f"{qty} × {product.title:<10} {product.cents / 100:>7.2f} €")
print(f"total {cart.total() / 100:.2f} €; saved cart {saved.total() / 100:.2f} €")
cart.add(tea, -3).add(pot, -1).add(cheap, -1)
print(bool(cart), bool(saved), tea == Product("T1", "Grüntee", 899))
try:
    tea.cents = 1
except AttributeError as e:
    print(type(e).__name__, e)
