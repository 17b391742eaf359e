# presets: standard,data,open
import unicodedata

samples = ["café", "cafe\u0301", "ﬁancé", "Ⅷ", "日本語テキスト", "Привет", "مرحبا", "👩‍🚀"]
for s in samples:
    nfc = unicodedata.normalize("NFC", s)
    nfkd = unicodedata.normalize("NFKD", s)
    stripped = "".join(c for c in nfkd if not unicodedata.combining(c))
    print(f"{nfc}: len={len(s)} nfc={len(nfc)} utf8={len(s.encode())} plain={stripped!r}")

assert samples[0] != samples[1]
assert unicodedata.normalize("NFC", samples[1]) == samples[0]


def slugify(text):
    text = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode()
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


for title in ["Über die Brücke!", "L'été à Orléans", "  Straße  no. 9 ", "100% Wołowina"]:
    print(slugify(title))

for ch in "A½€中\t":
    print(f"U+{ord(ch):04X} {unicodedata.category(ch)} {unicodedata.name(ch, '<control>')}")
print(unicodedata.numeric("½"), "٣".isdigit(), int("٣"))
print(sorted(["zebra", "Äpfel", "apfel", "Zoo"], key=lambda w: unicodedata.normalize("NFKD", w).casefold()))
