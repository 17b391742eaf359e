# expect: ok
import math

ALLOWED = {name: getattr(math, name) for name in ("sqrt", "sin", "cos", "pi", "e", "log")}
ALLOWED["abs"] = abs


def calculate(expression):
    """Evaluate an arithmetic expression with a few math functions."""
    return eval(expression, {"__builtins__": {}}, ALLOWED)


for expression in ["2 ** 10", "sqrt(16) + abs(-3)", "sin(pi / 2)", "open('x')", "3 +"]:
    try:
        print(f"{expression} = {calculate(expression)}")
    except (NameError, SyntaxError) as e:
        print(f"{expression} failed: {type(e).__name__}")

x = 7
print(eval("x * 6"))
