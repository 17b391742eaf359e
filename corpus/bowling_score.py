# presets: standard,data,open
def score(rolls):
    total, i = 0, 0
    for frame in range(10):
        if rolls[i] == 10:
            total += 10 + rolls[i + 1] + rolls[i + 2]
            i += 1
        elif rolls[i] + rolls[i + 1] == 10:
            total += 10 + rolls[i + 2]
            i += 2
        else:
            total += rolls[i] + rolls[i + 1]
            i += 2
    return total


def parse(card):
    rolls = []
    for ch in card:
        if ch == "X":
            rolls.append(10)
        elif ch == "/":
            rolls.append(10 - rolls[-1])
        elif ch == "-":
            rolls.append(0)
        elif ch.isdigit():
            rolls.append(int(ch))
    return rolls


tests = {
    "XXXXXXXXXXXX": 300,
    "9-9-9-9-9-9-9-9-9-9-": 90,
    "5/5/5/5/5/5/5/5/5/5/5": 150,
    "X7/9-X-88/-6XXX81": 167,
    "--------------------": 0,
}
passed = 0
for card, expected in tests.items():
    actual = score(parse(card))
    passed += actual == expected
    print(f"{card:<22} {actual:>3} {'ok' if actual == expected else f'expected {expected}'}")
print(f"{passed}/{len(tests)} passed")
assert passed == len(tests)
