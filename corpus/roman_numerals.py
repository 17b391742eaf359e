# presets: standard,data,open
NUMERALS = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]


def to_roman(n: int) -> str:
    if not 0 < n < 4000:
        raise ValueError(f"out of range: {n}")
    out = ""
    for value, symbol in NUMERALS:
        count, n = divmod(n, value)
        out += symbol * count
    return out


def from_roman(s: str) -> int:
    values = dict((sym, v) for v, sym in NUMERALS if len(sym) == 1)
    total = 0
    for a, b in zip(s, s[1:] + " "):
        total += -values[a] if values.get(b, 0) > values[a] else values[a]
    return total


def test_round_trip():
    for n in range(1, 4000):
        assert from_roman(to_roman(n)) == n


def test_known():
    assert to_roman(1994) == "MCMXCIV"
    assert from_roman("MMXXIV") == 2024


for test in (test_round_trip, test_known):
    test()
    print("PASS", test.__name__)
print({n: to_roman(n) for n in (4, 9, 40, 99, 444, 2024, 3999)})
print("longest below 4000:", max((to_roman(n) for n in range(1, 4000)), key=len))
try:
    to_roman(0)
except ValueError as err:
    print(err)
