# presets: standard,data,open
def hanoi(n, src="A", dst="C", via="B"):
    if n == 0:
        return []
    return hanoi(n - 1, src, via, dst) + [(src, dst)] + hanoi(n - 1, via, dst, src)


def permutations(items):
    if len(items) <= 1:
        return [items]
    return [
        [x] + rest
        for i, x in enumerate(items)
        for rest in permutations(items[:i] + items[i + 1 :])
    ]


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def subsets(items):
    if not items:
        return [[]]
    rest = subsets(items[1:])
    return rest + [[items[0]] + s for s in rest]


def partitions(n, largest=None):
    largest = largest or n
    if n == 0:
        yield ()
        return
    for first in range(min(n, largest), 0, -1):
        for rest in partitions(n - first, first):
            yield (first,) + rest


moves = hanoi(4)
print(len(moves), "moves:", " ".join(f"{a}{b}" for a, b in moves))
print(["".join(p) for p in permutations(list("abc"))])
print("ackermann(2, 3) =", ackermann(2, 3))
print(sorted(subsets([1, 2, 3]), key=lambda s: (len(s), s)))
print(*partitions(5), sep="\n")
