# expect: ok
import itertools as it

orders = [("mon", 3), ("mon", 5), ("tue", 2), ("wed", 8), ("wed", 1)]
for day, group in it.groupby(orders, key=lambda o: o[0]):
    print(day, sum(n for _, n in group))

print(list(it.combinations("abcd", 2)))
print(["".join(p) for p in it.permutations("xyz")])
print(list(it.accumulate([1, 2, 3, 4], lambda a, b: a * b)))
print(list(it.chain.from_iterable([[1, 2], [3], []])))
print(list(it.islice(it.count(10, 5), 4)), list(it.zip_longest("ab", "x", fillvalue="-")))
print(list(it.takewhile(lambda n: n < 4, [1, 3, 5, 2])), list(it.starmap(pow, [(2, 5), (3, 2)])))

dice = it.product(range(1, 7), repeat=2)
print("ways to roll 7:", sum(1 for roll in dice if sum(roll) == 7))
