# presets: standard,data,open
from collections import defaultdict
from typing import Callable, DefaultDict, List


class EventBus:
    def __init__(self):
        self._handlers: DefaultDict[str, List[tuple]] = defaultdict(list)
        self.errors = []

    def on(self, name: str, priority: int = 0):
        def register(handler: Callable):
            self._handlers[name].append((-priority, len(self._handlers[name]), handler))
            self._handlers[name].sort(key=lambda t: t[:2])
            return handler

        return register

    def emit(self, name: str, **payload):
        handled = 0
        for _, _, handler in self._handlers[name] + self._handlers["*"]:
            try:
                handler(name, **payload)
                handled += 1
            except Exception as exc:
                self.errors.append(f"{handler.__name__}: {exc!r}")
        return handled


bus = EventBus()


@bus.on("order.created")
def send_mail(event, **order):
    print(f"mail to {order['customer']}: order #{order['id']}")


@bus.on("order.created", priority=10)
def reserve_stock(event, **order):
    print(f"reserve {order['qty']} items")
    if order["qty"] > 100:
        raise RuntimeError("not enough stock")


@bus.on("*")
def audit(event, **payload):
    print(f"audit: {event} {sorted(payload)}")


print(bus.emit("order.created", id=1, customer="kim", qty=3))
print(bus.emit("order.created", id=2, customer="lee", qty=500))
print(bus.emit("user.login", user="kim"))
print(bus.errors)
