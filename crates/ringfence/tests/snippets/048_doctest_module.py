# expect: ok
import doctest


def gcd(a, b):
    """Return the greatest common divisor.

    >>> gcd(12, 18)
    6
    >>> gcd(7, 0)
    7
    >>> gcd(-4, 6)
    Traceback (most recent call last):
        ...
    ValueError: arguments must not be negative
    """
    if a < 0 or b < 0:
        raise ValueError("arguments must not be negative")
    while b:
        a, b = b, a % b
    return a


results = doctest.testmod(verbose=False)
print(f"{results.attempted} examples, {results.failed} failures")
