# presets: standard,data,open
from itertools import cycle, islice


def classic(n):
    for i in range(1, n + 1):
        if i % 15 == 0:
            yield "FizzBuzz"
        elif i % 3 == 0:
            yield "Fizz"
        elif i % 5 == 0:
            yield "Buzz"
        else:
            yield str(i)


def by_rules(n, rules=((3, "Fizz"), (5, "Buzz"))):
    return ["".join(word for k, word in rules if i % k == 0) or str(i) for i in range(1, n + 1)]


def by_cycles(n):
    fizz = cycle(["", "", "Fizz"])
    buzz = cycle(["", "", "", "", "Buzz"])
    return [f + b or str(i) for i, f, b in islice(zip(range(1, n + 1), fizz, buzz), n)]


assert list(classic(100)) == by_rules(100) == by_cycles(100)
print(*classic(20))
print(*by_rules(36, ((3, "Fizz"), (5, "Buzz"), (7, "Bazz")))[20:])
counts = {}
for word in classic(1000):
    key = word if not word.isdigit() else "number"
    counts[key] = counts.get(key, 0) + 1
print(counts)
by_rules(15)[-1]
