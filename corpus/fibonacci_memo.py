# presets: standard,data,open
# Compare three ways of computing Fibonacci numbers.
from functools import lru_cache


@lru_cache(maxsize=None)
def fib_cached(n):
    return n if n < 2 else fib_cached(n - 1) + fib_cached(n - 2)


def fib_iter(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def fib_matrix(n):
    def mul(x, y):
        return (
            x[0] * y[0] + x[1] * y[2],
            x[0] * y[1] + x[1] * y[3],
            x[2] * y[0] + x[3] * y[2],
            x[2] * y[1] + x[3] * y[3],
        )

    result, base = (1, 0, 0, 1), (1, 1, 1, 0)
    while n:
        if n & 1:
            result = mul(result, base)
        base = mul(base, base)
        n >>= 1
    return result[1]


for n in (0, 1, 2, 10, 50, 90):
    values = {fib_cached(n), fib_iter(n), fib_matrix(n)}
    assert len(values) == 1, values
    print(f"fib({n}) = {values.pop()}")
print("digits of fib(1000):", len(str(fib_matrix(1000))))
print(fib_cached.cache_info())
