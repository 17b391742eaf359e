# presets: standard,data,open
import math

OPS = {
    "+": (2, lambda a, b: a + b),
    "-": (2, lambda a, b: a - b),
    "*": (2, lambda a, b: a * b),
    "/": (2, lambda a, b: a / b),
    "^": (2, lambda a, b: a**b),
    "sqrt": (1, math.sqrt),
    "neg": (1, lambda a: -a),
    "max": (2, max),
}


def rpn(expression):
    stack = []
    for token in expression.split():
        if token in OPS:
            arity, func = OPS[token]
            if len(stack) < arity:
                raise IndexError(f"{token} needs {arity} operands")
            args = [stack.pop() for _ in range(arity)][::-1]
            stack.append(func(*args))
        elif token == "dup":
            stack.append(stack[-1])
        else:
            stack.append(float(token))
    if len(stack) != 1:
        raise ValueError(f"left over: {stack}")
    return stack[0]


for e in ["3 4 +", "5 1 2 + 4 * + 3 -", "3 dup * 4 dup * + sqrt", "2 10 ^ neg", "1 2", "+", "1 0 /", "two 3 +", "-1 sqrt"]:
    try:
        print(f"{e:<24} = {rpn(e):g}")
    except (ValueError, IndexError, ZeroDivisionError) as err:
        print(f"{e:<24} ! {type(err).__name__}")


def to_rpn(infix):
    precedence = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 3}
    out, ops = [], []
    for t in infix.split():
        if t in precedence:
            while ops and ops[-1] != "(" and (precedence[ops[-1]] > precedence[t] or precedence[ops[-1]] == precedence[t] and t != "^"):
                out.append(ops.pop())
            ops.append(t)
        elif t == "(":
            ops.append(t)
        elif t == ")":
            while ops[-1] != "(":
                out.append(ops.pop())
            ops.pop()
        else:
            out.append(t)
    return " ".join(out + ops[::-1])


for e in ["1 + 2 * 3", "( 1 + 2 ) * 3", "2 ^ 3 ^ 2", "8 - 3 - 2"]:
    print(e, "->", to_rpn(e), "=", rpn(to_rpn(e)))
