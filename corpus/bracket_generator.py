# presets: standard,data,open
# All well-formed bracket strings, two ways.
from functools import lru_cache


def generate(n, depth=0, text=""):
    if len(text) == 2 * n:
        yield text
        return
    opened = (len(text) + depth) // 2
    if opened < n:
        yield from generate(n, depth + 1, text + "(")
    if depth:
        yield from generate(n, depth - 1, text + ")")


@lru_cache(maxsize=None)
def catalan(n):
    if n == 0:
        return 1
    return sum(catalan(i) * catalan(n - 1 - i) for i in range(n))


print(list(generate(3)))
for n in range(9):
    count = sum(1 for _ in generate(n))
    assert count == catalan(n)
    print(f"{n}: {count}")
print("catalan(30) =", catalan(30))
depths = [max(t[:i].count("(") - t[:i].count(")") for i in range(len(t) + 1)) for t in generate(4)]
print("depths for n=4:", {d: depths.count(d) for d in sorted(set(depths))})
