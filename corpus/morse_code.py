# presets: standard,data,open
MORSE = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. "
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----.".split()))
REVERSE = {code: letter for letter, code in MORSE.items()}


def encode(text):
    return " / ".join(" ".join(MORSE[c] for c in word if c in MORSE) for word in text.upper().split())


def decode(code):
    return " ".join("".join(REVERSE.get(c, "?") for c in word.split()) for word in code.split(" / "))


message = "SOS we are sinking 42"
code = encode(message)
print(code)
print(decode(code))
assert decode(code) == message.upper()
print(decode(".... . .-.. .-.. --- / .-- --- .-. .-.. -.. / ......."))
units = {".": 1, "-": 3}
print("duration in units:", sum(units.get(c, 0) + 1 for c in code if c in units))
shortest = sorted(MORSE, key=lambda c: (sum(units[s] for s in MORSE[c]), c))
print("cheapest letters:", "".join(shortest[:8]))
