# presets: standard,data,open
from datetime import date

name, amount, ratio = "Ada", 1234567.891, 0.4567
print("%s owes %.2f (%5.1f%%)" % (name, amount, ratio * 100))
print("{:>12}|{:<12}|{:^12}|{:*^12}".format(name, name, name, name))
print(f"{amount:,.2f} {amount:.3e} {amount:_.0f} {ratio:.1%}")
print(f"{255:b} {255:o} {255:x} {255:#X} {255:08b} {-7:+d} {7: d}")
print(f"{date(2024, 2, 29):%d.%m.%Y} {name!r:>8} {'é':>4}|")
width, precision = 10, 3
print(f"[{3.14159265:{width}.{precision}f}]")
print("{0} {1} {0} {who}".format("a", "b", who="c"))
print(f"{name=} {ratio * 2=:.3f}")
print("tabs\tand \\backslashes\\ and \"quotes\"")
print(r"raw \n stays", "joined " "literals")
print("-".join(["x"] * 5), "ab" * 3, "title case me".title(), "SWAP me".swapcase())
print("a,b,,c".split(","), "  strip me ".strip(), "x=1=2".partition("="), "a b c".rsplit(None, 1))
print("path/to/file.tar.gz".rpartition("/")[2].split(".", 1))
print("ß".upper(), "ǅ".lower(), "İ".casefold() == "i̇")
print("\N{GREEK SMALL LETTER ALPHA}\u03b2\U000003b3", ascii("αβγ"))
print("42".zfill(6), "-42".zfill(6), "centre".center(20, "."))
print("{:{}{}}".format("right", ">", 10))
print(f"nested {f'{ratio:.2f}'!s:>8}")
