# presets: standard,data,open
from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Iterator


class OutOfStock(Exception):
    pass


@dataclass(order=True)
class Item:
    sku: str
    name: str = field(compare=False)
    price: float = field(compare=False)
    qty: int = field(default=0, compare=False)

    @property
    def value(self) -> float:
        return self.price * self.qty


@dataclass
class Inventory:
    items: dict[str, Item] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        if item.sku in self.items:
            self.items[item.sku].qty += item.qty
        else:
            self.items[item.sku] = item

    def remove(self, sku: str, qty: int) -> None:
        item = self.items.get(sku)
        if item is None:
            raise KeyError(f"unknown sku {sku}")
        if item.qty < qty:
            raise OutOfStock(f"only {item.qty} of {item.name!r} left, wanted {qty}")
        item.qty -= qty

    def __iter__(self) -> Iterator[Item]:
        return iter(sorted(self.items.values()))

    def __len__(self) -> int:
        return len(self.items)


inv = Inventory()
inv.add(Item("W-2", "Wrench", 12.0, 4))
inv.add(Item("H-1", "Hammer", 19.5, 10))
inv.add(Item("S-9", "Screws (box)", 3.25, 100))
inv.add(Item("H-1", "Hammer", 19.5, 5))

for sku, qty in [("H-1", 3), ("W-2", 5), ("X-0", 1)]:
    try:
        inv.remove(sku, qty)
        print(f"removed {qty} x {sku}")
    except (OutOfStock, KeyError) as exc:
        print(f"{type(exc).__name__}: {exc}")

for item in inv:
    print(f"{item.sku} {item.name:<14} {item.qty:>4} {item.value:>9.2f}")
print("total", sum(i.value for i in inv), "in", len(inv), "lines")
print(asdict(inv)["items"]["W-2"])
