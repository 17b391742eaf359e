from decimal import Decimal, ROUND_HALF_UP
from datetime import datetime, timezone
from uuid import uuid4


class InsufficientFunds(Exception):
    """Raised when a withdrawal is larger than the balance."""

    def __init__(self, wanted, balance):
        super().__init__(f"{wanted} is more than {balance}")
        self.wanted = wanted
        self.balance = balance


class Account:
    interest = Decimal("0.015")

    def __init__(self, owner, balance="0"):
        self.id = str(uuid4())
        self.owner = owner
        self._balance = Decimal(balance)
        self.__history = []

    @property
    def balance(self):
        return self._balance.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)

    @balance.setter
    def balance(self, value):
        self._balance = Decimal(value)

    @classmethod
    def from_row(cls, row):
        return cls(row["owner"], row.get("balance", "0"))

    @staticmethod
    def currency():
        return "EUR"

    def withdraw(self, amount):
        amount = Decimal(amount)
        if amount > self._balance:
            raise InsufficientFunds(amount, self.balance)
        self._balance -= amount
        self.__history.append((datetime.now(timezone.utc), -amount))

    def __repr__(self):
        return f"{type(self).__name__}({self.owner!r}, {str(self.balance)!r})"

    def __eq__(self, other):
        return isinstance(other, Account) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __lt__(self, other):
        return self._balance < other._balance

    def __iter__(self):
        return iter(self.__history)

    def __len__(self):
        return len(self.__history)

    def __contains__(self, when):
        return any(when == moment for moment, _ in self.__history)


class Savings(Account):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.rate = getattr(self, "interest", Decimal(0))

    def __str__(self):
        return "savings of " + super().__repr__()


accounts = [Account("ada", "10"), Savings.from_row({"owner": "bob", "balance": "99.999"})]
try:
    accounts[0].withdraw("20")
except InsufficientFunds as error:
    print("no:", error, error.__cause__)
else:
    print("yes")
finally:
    print(sorted(accounts), max(accounts))
