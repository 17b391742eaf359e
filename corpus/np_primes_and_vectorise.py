# presets: data,open
# needs: numpy
import numpy as np


def sieve(n):
    flags = np.ones(n + 1, dtype=bool)
    flags[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if flags[i]:
            flags[i * i :: i] = False
    return np.flatnonzero(flags)


primes = sieve(1_000_000)
print(len(primes), primes[:10].tolist(), int(primes[-1]))
gaps = np.diff(primes)
print("largest gap", int(gaps.max()), "after", int(primes[gaps.argmax()]))
last = np.bincount(primes[4:] % 10, minlength=10)
print("last digits:", {d: int(last[d]) for d in (1, 3, 7, 9)})

n = np.arange(1, 31)
words = np.select([n % 15 == 0, n % 3 == 0, n % 5 == 0], ["FizzBuzz", "Fizz", "Buzz"], default="")
print(" ".join(w if w else str(i) for i, w in zip(n.tolist(), words.tolist())))


@np.vectorize
def collatz(k):
    steps = 0
    while k != 1:
        k = k // 2 if k % 2 == 0 else 3 * k + 1
        steps += 1
    return steps


print(collatz(np.arange(1, 21)).tolist())
x = np.arange(1, 6)
print((x[:, None] * x).tolist()[2], np.einsum("i,j->ij", x, x)[4].tolist(), np.prod(x))
