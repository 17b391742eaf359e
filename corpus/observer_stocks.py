# presets: standard,data,open
class Observable:
    def __init__(self):
        self._observers = []

    def subscribe(self, callback):
        self._observers.append(callback)
        return lambda: self._observers.remove(callback)

    def notify(self, *args):
        for callback in list(self._observers):
            callback(*args)


class Stock(Observable):
    def __init__(self, symbol, price):
        super().__init__()
        self.symbol = symbol
        self._price = price

    @property
    def price(self):
        return self._price

    @price.setter
    def price(self, value):
        if value < 0:
            raise ValueError("price cannot be negative")
        old, self._price = self._price, value
        if old != value:
            self.notify(self, old, value)

    @price.deleter
    def price(self):
        self._price = 0


def ticker(stock, old, new):
    arrow = "▲" if new > old else "▼"
    print(f"{stock.symbol} {arrow} {new:.2f} ({(new - old) / old:+.1%})")


class Alert:
    def __init__(self, limit):
        self.limit = limit
        self.fired = 0

    def __call__(self, stock, old, new):
        if old < self.limit <= new:
            self.fired += 1
            print(f"  ALERT {stock.symbol} reached {self.limit}")


acme = Stock("ACME", 95.0)
alert = Alert(100)
stop = acme.subscribe(ticker)
acme.subscribe(alert)
for p in (97.5, 101.0, 101.0, 99.0, 104.5):
    acme.price = p
stop()
acme.price = 90
acme.price = 120
print("alerts:", alert.fired)
try:
    acme.price = -1
except ValueError as e:
    print(e)
del acme.price
print(acme.price)
