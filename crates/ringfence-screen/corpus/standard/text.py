import re
import string
import textwrap
import unicodedata
from collections import Counter
from difflib import SequenceMatcher, get_close_matches

PATTERN = re.compile(r"(?P<key>\w+)\s*=\s*(?P<value>[^;]+);?")
TABLE = str.maketrans("", "", string.punctuation)


def parse(line):
    return {m["key"]: m["value"].strip() for m in PATTERN.finditer(line)}


def slug(title):
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def words(text):
    return text.translate(TABLE).lower().split()


def report(text, width=40):
    counts = Counter(words(text))
    lines = ["{:<12}{:>5}".format(word, n) for word, n in counts.most_common(5)]
    return textwrap.fill(" | ".join(lines), width=width)


template = string.Template("$name wrote eval( and exec( in $place")
print(parse("a = 1; b = __class__"), slug("Größe & Maß"))
print(report("the open door opened; the type of door: an open type"))
print(template.substitute(name="Ada", place="a string"))
print(SequenceMatcher(None, "compile", "compiler").ratio(), get_close_matches("opne", ["open", "close"]))
print("%s %05.2f" % ("x", 3.14159), f"{'globals':>10}|{1 / 3:.3%}|{0xff:#x}")
