# expect: ok
from functools import lru_cache


def knapsack(items, capacity):
    best = [0] * (capacity + 1)
    for weight, value in items:
        for c in range(capacity, weight - 1, -1):
            best[c] = max(best[c], best[c - weight] + value)
    return best[capacity]


def lcs(a, b):
    table = [[""] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + x if x == y else max(table[i][j + 1], table[i + 1][j], key=len)
    return table[-1][-1]


def edit_distance(a, b):
    @lru_cache(maxsize=None)
    def d(i, j):
        if i == 0 or j == 0:
            return i + j
        return min(d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + (a[i - 1] != b[j - 1]))
    return d(len(a), len(b))


print(knapsack([(12, 4), (2, 2), (1, 1), (1, 2), (4, 10)], 15))
print(lcs("AGGTAB", "GXTXAYB"), edit_distance("kitten", "sitting"))
coins, ways = [1, 5, 10, 25], [1] + [0] * 100
for coin in coins:
    for amount in range(coin, 101):
        ways[amount] += ways[amount - coin]
print("ways to change a dollar:", ways[100])
