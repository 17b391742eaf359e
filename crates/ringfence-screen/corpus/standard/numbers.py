import cmath
import math
import random
import statistics as st
from fractions import Fraction
from math import *
from numbers import Number
from array import array
from bisect import bisect_left, insort
import struct, binascii, base64, hashlib


def newton(f, x, eps=1e-9, steps=50):
    for _ in range(steps):
        slope = (f(x + eps) - f(x - eps)) / (2 * eps)
        if not slope:
            break
        x -= f(x) / slope
    return x


def matrix(rows, cols, value=lambda i, j: float(i == j)):
    return [[value(i, j) for j in range(cols)] for i in range(rows)]


def matmul(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]


random.seed(7)
sample = sorted(random.gauss(0, 1) for _ in range(100))
insort(sample, 0.5)
print(newton(lambda x: x * x - 2, 1.0), sqrt(2), pi, cmath.sqrt(-1), Fraction(3, 9))
print(st.mean(sample), st.median(sample), bisect_left(sample, 0.0), matmul(matrix(2, 2), matrix(2, 2)))
print(isinstance(3, Number), array("d", [1.0, 2.0]).tolist(), struct.pack("<I", 7), hashlib.sha256(b"x").hexdigest()[:8])
print(base64.b64encode(b"hello"), binascii.hexlify(b"hi"), 7 // 2, -7 % 3, 2 ** 10, 0b101 ^ 0x0F, ~1, 1 << 4)
