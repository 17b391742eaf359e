# expect: ok
from functools import cmp_to_key, lru_cache, partial, reduce, singledispatch, total_ordering


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@singledispatch
def describe(value):
    return f"something: {value}"


@describe.register(int)
def _(value):
    return f"integer {value}"


@describe.register
def _(value: list):
    return f"list of {len(value)}"


@total_ordering
class Version:
    def __init__(self, text):
        self.parts = tuple(map(int, text.split(".")))

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts


print(fib(90), fib.cache_info().misses)
print(describe(3), describe([1, 2]), describe("x"), sep="; ")
print(Version("1.10") >= Version("1.9"), partial(int, base=2)("1011"))
print(reduce(lambda a, b: a * b, range(1, 8)), sorted([3, 1, 2], key=cmp_to_key(lambda a, b: b - a)))
