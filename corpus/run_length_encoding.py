# presets: standard,data,open
from itertools import groupby
import re


def encode(text):
    return "".join(f"{n if (n := len(list(g))) > 1 else ''}{ch}" for ch, g in groupby(text))


def decode(text):
    return "".join(ch * int(n or 1) for n, ch in re.findall(r"(\d*)(\D)", text))


def bwt(s):
    s += "\x03"
    return "".join(r[-1] for r in sorted(s[i:] + s[:i] for i in range(len(s))))


def inverse_bwt(r):
    table = [""] * len(r)
    for _ in r:
        table = sorted(ch + row for ch, row in zip(r, table))
    return next(row for row in table if row.endswith("\x03"))[:-1]


cases = ["WWWWWWBWWWWBBB", "", "abc", "aaaa", "zz  yy", "ééé"]
for case in cases:
    packed = encode(case)
    assert decode(packed) == case
    print(f"{case!r:<20} {packed!r}")

text = "banana bandana"
mixed = bwt(text)
print(repr(mixed), encode(mixed.replace("\x03", "$")))
assert inverse_bwt(mixed) == text
print("look and say:")
term = "1"
for _ in range(7):
    print(" ", term)
    term = "".join(f"{len(list(g))}{d}" for d, g in groupby(term))
