# presets: standard,data,open
import textwrap

paragraph = """
    The quick brown fox jumps over the lazy dog. Pack my box with five dozen
    liquor jugs. How vexingly quick daft zebras jump! Sphinx of black quartz,
    judge my vow. The five boxing wizards jump quickly.
"""

text = " ".join(textwrap.dedent(paragraph).split())
print(textwrap.fill(text, width=40))
print()
print(textwrap.fill(text, width=50, initial_indent="* ", subsequent_indent="  "))
print()
print(textwrap.shorten(text, width=60, placeholder=" [...]"))
print()


def justify(line, width):
    words = line.split()
    if len(words) == 1:
        return line
    spaces = width - sum(map(len, words))
    each, extra = divmod(spaces, len(words) - 1)
    return "".join(w + " " * (each + (i < extra)) for i, w in enumerate(words[:-1])) + words[-1]


lines = textwrap.wrap(text, 44)
for line in lines[:-1]:
    print("|" + justify(line, 44) + "|")
print("|" + lines[-1].ljust(44) + "|")
print(textwrap.indent("one\ntwo\n\nthree", "> ", lambda line: line.strip()))
