# presets: data,open
import ast
import operator

OPS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.Mod: operator.mod, ast.USub: operator.neg, ast.FloorDiv: operator.floordiv,
}


def safe_eval(source, names=None):
    def visit(node):
        if isinstance(node, ast.Expression):
            return visit(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp):
            return OPS[type(node.op)](visit(node.left), visit(node.right))
        if isinstance(node, ast.UnaryOp):
            return OPS[type(node.op)](visit(node.operand))
        if isinstance(node, ast.Name) and node.id in (names or {}):
            return names[node.id]
        raise ValueError(f"{type(node).__name__} is not allowed")

    return visit(ast.parse(source, mode="eval"))


for source in ["1 + 2 * 3", "-(2 ** 8) % 7", "x * x + y", "__import__('os')", "[1, 2]", "1 +", "open"]:
    try:
        print(f"{source:<18} {safe_eval(source, {'x': 3, 'y': 0.5})}")
    except (ValueError, SyntaxError) as e:
        print(f"{source:<18} {type(e).__name__}")

tree = ast.parse("def f(a, b=2):\n    return a + b\n\nclass C:\n    def g(self): pass\nprint(f(1))")
print([n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))])
print(ast.unparse(tree.body[0]).replace("\n", "⏎"))
print(ast.literal_eval("{'a': [1, (2, 3)], 'b': None}"))
namespace = {}
exec(compile(tree, "<generated>", "exec"), namespace)
print(eval("f(10) * 2", namespace))
