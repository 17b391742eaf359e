# expect: ok
import re
import shlex
from collections import namedtuple

Token = namedtuple("Token", "kind text column")
SPEC = [("NUMBER", r"\d+(?:\.\d+)?"), ("NAME", r"[A-Za-z_]\w*"), ("OP", r"[-+*/=()]"), ("SKIP", r"\s+"), ("BAD", r".")]
SCANNER = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in SPEC))


def tokenize(text):
    for m in SCANNER.finditer(text):
        if m.lastgroup == "BAD":
            raise SyntaxError(f"unexpected {m.group()!r} in column {m.start() + 1}")
        if m.lastgroup != "SKIP":
            yield Token(m.lastgroup, m.group(), m.start() + 1)


for token in tokenize("total = price * 1.19 + 5"):
    print(f"{token.column:>3} {token.kind:<7} {token.text}")
try:
    list(tokenize("a $ b"))
except SyntaxError as e:
    print("Error:", e)

print(shlex.split("copy 'my file.txt' --to=/backup # comment", comments=True))
print(dict(pair.split("=", 1) for pair in "a=1;b=x=y".split(";")), "key: value".partition(": "))
