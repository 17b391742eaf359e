# presets: standard,data,open
COINS = {"€2": 200, "€1": 100, "50c": 50, "20c": 20, "10c": 10, "5c": 5, "2c": 2, "1c": 1}


def greedy(cents):
    out = {}
    for name, value in COINS.items():
        n, cents = divmod(cents, value)
        if n:
            out[name] = n
    return out


def fewest(cents, coins):
    best = [0] + [None] * cents
    choice = [None] * (cents + 1)
    for amount in range(1, cents + 1):
        for coin in coins:
            if coin <= amount and best[amount - coin] is not None:
                if best[amount] is None or best[amount - coin] + 1 < best[amount]:
                    best[amount] = best[amount - coin] + 1
                    choice[amount] = coin
    if best[cents] is None:
        return None
    used = []
    while cents:
        used.append(choice[cents])
        cents -= choice[cents]
    return sorted(used, reverse=True)


for amount in (1, 99, 388, 1267):
    print(f"{amount / 100:>6.2f}:", ", ".join(f"{n}×{name}" for name, n in greedy(amount).items()))
print("greedy is not always best: 6 from {1,3,4} ->", fewest(6, [1, 3, 4]))
print("impossible: 7 from {5,10} ->", fewest(7, [5, 10]))
assert all(len(fewest(n, COINS.values())) == sum(greedy(n).values()) for n in range(1, 300))
