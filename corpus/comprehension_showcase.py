# presets: standard,data,open
words = "the quick brown fox jumps over the lazy dog".split()

print([w.upper() for w in words if len(w) > 3])
print({w: len(w) for w in words})
print(sorted({len(w) for w in words}))
print([(x, y) for x in range(3) for y in range(x)])
print([[r * c for c in range(1, 6)] for r in range(1, 4)])
print(sum(x * x for x in range(10) if x % 2))
print({k: [w for w in words if len(w) == k] for k in sorted({len(w) for w in words})})

matrix = [[1, 2, 3], [4, 5, 6]]
print([v for row in matrix for v in row], [list(c) for c in zip(*matrix)])
print([y for x in range(6) if (y := x * x - 3) > 0])
print(["even" if n % 2 == 0 else "odd" for n in range(4)])
print(any(w.startswith("z") for w in words), all(w.isalpha() for w in words))
print(dict(zip("abc", range(3))) | {"d": 9}, {**{"a": 1}, "b": 2})
print(max(words, key=lambda w: (len(w), w)), min(words, key=len))
print(*sorted(words, key=str.casefold, reverse=True)[:3], sep=" > ")
print(list(map(lambda a, b: a + b, [1, 2], [10, 20])), list(filter(None, [0, 1, "", "a", None])))
triples = [(a, b, c) for c in range(1, 30) for b in range(1, c) for a in range(1, b) if a * a + b * b == c * c]
print(triples)
print([*range(3), *"ab"], {*words} & {"fox", "cat"}, (*"xy",))
print(list(enumerate("ab", start=1)), list(reversed([1, 2, 3])), [1, 2, 3, 4, 5][::-2])
