# expect: ok
expression = compile("a * x ** 2 + b", "<formula>", "eval")
print([eval(expression, {"a": 2, "b": 1, "x": x}) for x in range(4)])
print(expression.co_names, expression.co_filename)

program = compile("""
def double(n):
    return n * 2

result = [double(i) for i in range(5)]
""", "<program>", "exec")
namespace = {"__name__": "generated"}
exec(program, namespace)
print(namespace["result"], namespace["double"].__module__)

for source in ("x = = 1", "print('fine')", "def f(:"):
    try:
        compile(source, "<check>", "exec")
        print(f"{source!r} is valid")
    except SyntaxError as e:
        print(f"{source!r} is not: line {e.lineno}")
