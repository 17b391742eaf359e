# expect: ok
import functools
import time


def timed(func):
    """Print how long a call takes."""
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = func(*args, **kwargs)
        elapsed = time.perf_counter() - start
        print(f"{func.__name__} took {'less' if elapsed < 1 else 'more'} than a second")
        return result
    return wrapper


@timed
def slow_sum(n):
    """Add the numbers below n."""
    return sum(i * i for i in range(n))


print(slow_sum(100_000))
print(slow_sum.__name__, "-", slow_sum.__doc__, "-", slow_sum.__wrapped__(4))
