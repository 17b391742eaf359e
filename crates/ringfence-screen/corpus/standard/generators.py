import heapq
import itertools
import functools
from contextlib import contextmanager, suppress
from typing import Generator, Iterable, Iterator, Optional, TypeVar

T = TypeVar("T")


def primes() -> Generator[int, None, None]:
    found: dict[int, list[int]] = {}
    for n in itertools.count(2):
        if n not in found:
            yield n
            found[n * n] = [n]
        else:
            for p in found.pop(n):
                found.setdefault(p + n, []).append(p)


@functools.lru_cache(maxsize=None)
def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def chunked(items: Iterable[T], size: int) -> Iterator[list[T]]:
    it = iter(items)
    while chunk := list(itertools.islice(it, size)):
        yield chunk


def memoize(function):
    cache = {}

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        key = (args, tuple(sorted(kwargs.items())))
        if key not in cache:
            cache[key] = function(*args, **kwargs)
        return cache[key]

    return wrapper


@contextmanager
def step(name: str, log: Optional[list] = None):
    log = [] if log is None else log
    log.append(("begin", name))
    try:
        yield log
    finally:
        log.append(("end", name))


@memoize
def slow(x, *, power=2):
    return x ** power


with step("outer") as log, suppress(ZeroDivisionError):
    log.append(slow(3, power=3))
    1 / 0
print(log, list(itertools.islice(primes(), 10)), fib(50))
print([sum(c) for c in chunked(range(10), 3)], heapq.nsmallest(2, [3, 1, 2]))
total = functools.reduce(lambda a, b: a * b, range(1, 6), 1)
print(total, *map(str, filter(None, [0, 1, 2])), sep=", ")


def delegating():
    received = yield from chunked("abcdef", 4)
    return received


print(list(delegating()))
