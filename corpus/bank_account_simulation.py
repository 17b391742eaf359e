# presets: standard,data,open
class InsufficientFunds(Exception):
    def __init__(self, needed, available):
        super().__init__(f"need {needed:.2f}, have {available:.2f}")
        self.needed = needed
        self.available = available


class Account:
    _next_number = 1000

    def __init__(self, owner, balance=0.0):
        self.owner = owner
        self.balance = balance
        self.history = []
        self.number = Account._next_number
        Account._next_number += 1

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("deposit must be positive")
        self.balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount):
        if amount > self.balance:
            raise InsufficientFunds(amount, self.balance)
        self.balance -= amount
        self.history.append(("withdraw", amount))

    def __repr__(self):
        return f"<Account {self.number} {self.owner}: {self.balance:.2f}>"


class SavingsAccount(Account):
    def __init__(self, owner, balance=0.0, rate=0.03):
        super().__init__(owner, balance)
        self.rate = rate

    def add_interest(self):
        self.deposit(round(self.balance * self.rate, 2))


def transfer(src, dst, amount):
    src.withdraw(amount)
    dst.deposit(amount)
    print(f"transferred {amount:.2f} from {src.owner} to {dst.owner}")


if __name__ == "__main__":
    alice = Account("Alice", 500)
    bob = SavingsAccount("Bob", 1200, rate=0.05)
    transfer(bob, alice, 200)
    bob.add_interest()
    for action in (lambda: transfer(alice, bob, 5000), lambda: alice.deposit(-1)):
        try:
            action()
        except InsufficientFunds as e:
            print("refused:", e, f"(short by {e.needed - e.available:.2f})")
        except ValueError as e:
            print("bad request:", e)
    print(alice, bob)
    print(bob.history)
