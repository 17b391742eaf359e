# presets: standard,data,open
"""Recursive-descent parser and evaluator for arithmetic expressions."""
import re

TOKEN = re.compile(r"\s*(?:(\d+\.?\d*)|(\*\*|[-+*/()%]))")


def tokenize(text):
    pos = 0
    text = text.rstrip()
    while pos < len(text):
        m = TOKEN.match(text, pos)
        if not m:
            raise SyntaxError(f"unexpected {text[pos]!r} at {pos}")
        pos = m.end()
        yield ("num", float(m[1])) if m[1] else ("op", m[2])
    yield ("end", None)


class Parser:
    def __init__(self, text):
        self.tokens = list(tokenize(text))
        self.i = 0

    def take(self, *ops):
        kind, value = self.tokens[self.i]
        if kind == "op" and value in ops:
            self.i += 1
            return value
        return None

    def expr(self):
        value = self.term()
        while op := self.take("+", "-"):
            right = self.term()
            value = value + right if op == "+" else value - right
        return value

    def term(self):
        value = self.unary()
        while op := self.take("*", "/", "%"):
            right = self.unary()
            value = {"*": lambda: value * right, "/": lambda: value / right, "%": lambda: value % right}[op]()
        return value

    def unary(self):
        if self.take("-"):
            return -self.unary()
        return self.power()

    def power(self):
        base = self.atom()
        return base ** self.unary() if self.take("**") else base

    def atom(self):
        kind, value = self.tokens[self.i]
        if kind == "num":
            self.i += 1
            return value
        if self.take("("):
            value = self.expr()
            if not self.take(")"):
                raise SyntaxError("expected )")
            return value
        raise SyntaxError(f"unexpected {value!r}")


for source in ["1 + 2 * 3", "(1 + 2) * 3", "2 ** 3 ** 2", "-2 ** 2", "10 / 4 % 2", "((4))", "1 +", "2 $ 3", "1/0"]:
    try:
        print(f"{source:<14} = {Parser(source).expr():g}")
    except (SyntaxError, ZeroDivisionError) as e:
        print(f"{source:<14} ! {type(e).__name__}: {e}")
