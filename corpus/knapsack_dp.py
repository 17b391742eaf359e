# presets: standard,data,open
from functools import lru_cache

items = [("map", 9, 150), ("compass", 13, 35), ("water", 153, 200), ("sandwich", 50, 160),
         ("glucose", 15, 60), ("tin", 68, 45), ("banana", 27, 60), ("apple", 39, 40),
         ("cheese", 23, 30), ("camera", 32, 30), ("trousers", 48, 10), ("umbrella", 73, 40)]


def knapsack(items, capacity):
    table = [[0] * (capacity + 1) for _ in range(len(items) + 1)]
    for i, (_, weight, value) in enumerate(items, 1):
        for w in range(capacity + 1):
            table[i][w] = table[i - 1][w]
            if weight <= w:
                table[i][w] = max(table[i][w], table[i - 1][w - weight] + value)
    chosen, w = [], capacity
    for i in range(len(items), 0, -1):
        if table[i][w] != table[i - 1][w]:
            chosen.append(items[i - 1])
            w -= items[i - 1][1]
    return table[-1][capacity], chosen[::-1]


best, chosen = knapsack(items, 300)
print("best value:", best)
for name, weight, value in chosen:
    print(f"  {name:<10} {weight:>4} g  {value:>4}")
print("weight:", sum(w for _, w, _ in chosen))


@lru_cache(None)
def coins(amount, denominations=(200, 100, 50, 20, 10, 5, 2, 1)):
    if amount == 0:
        return 1
    if amount < 0 or not denominations:
        return 0
    return coins(amount - denominations[0], denominations) + coins(amount, denominations[1:])


print("ways to make 2.00:", coins(200))
