# presets: standard,data,open
import string
from itertools import cycle

ALPHABET = string.ascii_uppercase


def shift(ch, k):
    if ch.upper() not in ALPHABET:
        return ch
    base = ord("A") if ch.isupper() else ord("a")
    return chr((ord(ch) - base + k) % 26 + base)


def caesar(text, k):
    return "".join(shift(c, k) for c in text)


def vigenere(text, key, sign=1):
    keys = cycle(ALPHABET.index(k) for k in key.upper())
    return "".join(shift(c, sign * next(keys)) if c.isalpha() else c for c in text)


def crack(cipher):
    english = "ETAOINSHRDLU"
    def score(text):
        return sum(text.upper().count(c) * (12 - i) for i, c in enumerate(english))
    return max(range(26), key=lambda k: score(caesar(cipher, -k)))


message = "Attack at dawn; bring the long ladders and three sets of dry clothes."
secret = caesar(message, 11)
print(secret)
print("cracked shift:", crack(secret), "->", caesar(secret, -crack(secret)))
v = vigenere(message, "Lemon")
print(v)
assert vigenere(v, "Lemon", -1) == message
table = str.maketrans(string.ascii_lowercase, string.ascii_lowercase[::-1])
print("atbash:", "wizard".translate(table))
rot13 = caesar("Why did the chicken cross the road?", 13)
print(rot13, "|", caesar(rot13, 13))
