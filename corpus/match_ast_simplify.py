# presets: standard,data,open
# needs: python>=3.10
# Symbolic differentiation with structural pattern matching.
from __future__ import annotations
from dataclasses import dataclass


@dataclass(frozen=True)
class Num:
    value: float


@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class Bin:
    op: str
    left: Expr
    right: Expr


Expr = Num | Var | Bin


def simplify(e: Expr) -> Expr:
    match e:
        case Bin(op, left, right):
            e = Bin(op, simplify(left), simplify(right))
    match e:
        case Bin("+", Num(0), x) | Bin("+", x, Num(0)) | Bin("*", Num(1), x) | Bin("*", x, Num(1)):
            return x
        case Bin("*", Num(0), _) | Bin("*", _, Num(0)):
            return Num(0)
        case Bin("+", Num(a), Num(b)):
            return Num(a + b)
        case Bin("*", Num(a), Num(b)):
            return Num(a * b)
    return e


def diff(e: Expr, x: str) -> Expr:
    match e:
        case Num():
            return Num(0)
        case Var(name):
            return Num(int(name == x))
        case Bin("+", a, b):
            return Bin("+", diff(a, x), diff(b, x))
        case Bin("*", a, b):
            return Bin("+", Bin("*", diff(a, x), b), Bin("*", a, diff(b, x)))
    raise TypeError(e)


def show(e: Expr) -> str:
    match e:
        case Num(value):
            return f"{value:g}"
        case Var(name):
            return name
        case Bin(op, a, b):
            return f"({show(a)} {op} {show(b)})"


x = Var("x")
for e in (Bin("+", Bin("*", Num(3), x), Num(5)), Bin("*", x, x), Bin("*", Bin("+", x, Num(0)), Bin("*", x, Var("y")))):
    print(show(e), "=>", show(simplify(diff(e, "x"))))
