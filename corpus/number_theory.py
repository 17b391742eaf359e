# presets: standard,data,open
from math import gcd, isqrt, lcm


def factor(n):
    out = {}
    p = 2
    while p * p <= n:
        while n % p == 0:
            out[p] = out.get(p, 0) + 1
            n //= p
        p += 1 if p == 2 else 2
    if n > 1:
        out[n] = out.get(n, 0) + 1
    return out


def egcd(a, b):
    if b == 0:
        return a, 1, 0
    g, x, y = egcd(b, a % b)
    return g, y, x - a // b * y


def crt(remainders, moduli):
    x, m = 0, 1
    for r, n in zip(remainders, moduli):
        x += m * ((r - x) * pow(m, -1, n) % n)
        m *= n
    return x % m


def totient(n):
    result = n
    for p in factor(n):
        result -= result // p
    return result


def is_prime(n, bases=(2, 3, 5, 7, 11, 13, 17)):
    if n < 2 or any(n % p == 0 and n != p for p in bases):
        return False
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for a in bases:
        x = pow(a, d, n)
        if n == a or x in (1, n - 1):
            continue
        if not any((x := x * x % n) == n - 1 for _ in range(s - 1)):
            return False
    return True


for n in (360, 97, 1001, 600851475143):
    print(n, "=", " · ".join(f"{p}^{e}" if e > 1 else str(p) for p, e in factor(n).items()))
print(gcd(252, 105), lcm(4, 6, 10), egcd(240, 46), totient(36), isqrt(10**10))
print("x ≡ 2,3,2 mod 3,5,7:", crt([2, 3, 2], [3, 5, 7]))
print([n for n in range(10**9, 10**9 + 100) if is_prime(n)])
print("perfect:", [n for n in range(2, 9000) if sum(d + n // d if d * d != n else d for d in range(1, isqrt(n) + 1) if n % d == 0) == 2 * n])
