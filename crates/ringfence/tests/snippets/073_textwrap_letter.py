# expect: ok
import textwrap

text = """
    Python comes with a large standard library. It has modules for text, dates,
    files, networks and many other things, so small programs rarely need more.
"""
plain = " ".join(textwrap.dedent(text).split())
print(textwrap.fill(plain, width=40, initial_indent="* ", subsequent_indent="  "))
print()
print(textwrap.shorten(plain, width=50, placeholder=" [...]"))
print(textwrap.indent("first\nsecond", "> "))

rows = [("name", "qty"), ("apple", 3), ("watermelon", 12)]
width = max(len(str(a)) for a, _ in rows)
for a, b in rows:
    print(f"|{a:<{width}}|{b!s:>5}|")
print("centre".center(20, "="), f"{1234567.891:,.2f}", f"{0.256:.0%}", f"{255:#x}")
