data = [{"name": "ada", "n": 3}, {"name": "bob", "n": 1}]
total = sum(row["n"] for row in data)
by_name = {row["name"]: row["n"] for row in data}
biggest = sorted(data, key=lambda row: -row["n"])[0]
squares = [x ** 2 for x in range(10) if x % 2 == 0]
i, found = 0, None
while i < len(squares):
    if squares[i] > 10:
        found = squares[i]
        break
    i += 1
else:
    found = -1
for k, v in by_name.items():
    print(f"{k:>5} {v:03d} {'x' * v!r}", "{} of {}".format(v, total))
pairs = list(zip(squares, map(str, squares)))
print(any(v > 2 for v in by_name.values()), max(squares, default=0), (n := len(pairs)), n)
text = "the quick brown fox"
print(" ".join(w.title() for w in text.split()), text[::-1], {*text} - set("aeiou"))
assert total == 4, "total"
del i
