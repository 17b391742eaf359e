# presets: standard,data,open
import itertools as it
from math import prod

print(list(it.accumulate([1, 2, 3, 4, 5])))
print(list(it.accumulate([3, 1, 4, 1, 5, 9, 2, 6], max)))
print(["".join(p) for p in it.product("ab", repeat=2)])
print([c for c in it.combinations(range(1, 8), 3) if sum(c) == 12])
print(list(it.chain.from_iterable([[1], [2, 3], []])))
print(list(it.takewhile(lambda x: x < 40, (n * n for n in it.count(1)))))
print(list(it.zip_longest("abc", [1], fillvalue="-")))
a, b = it.tee(iter("xyz"))
next(b)
print(list(zip(a, b)))
print(list(it.starmap(pow, [(2, 5), (3, 2), (10, 3)])))
print(list(it.compress("ABCDEF", [1, 0, 1, 0, 1, 1])))
cycle = it.cycle(["red", "green", "amber"])
print([next(cycle) for _ in range(5)])

people = [("ann", "dev"), ("bob", "ops"), ("cid", "dev"), ("dee", "hr"), ("eve", "ops")]
people.sort(key=lambda p: p[1])
for team, members in it.groupby(people, key=lambda p: p[1]):
    print(team, [name for name, _ in members])

largest = max(it.combinations([4, 7, 2, 9, 5], 3), key=prod)
print("largest product:", largest, prod(largest))
