# expect: ok
import ast
import operator

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class Evaluator:
    def visit(self, node):
        method = getattr(self, "visit_" + node.__class__.__name__, self.unsupported)
        return method(node)

    def visit_Expression(self, node):
        return self.visit(node.body)

    def visit_BinOp(self, node):
        return OPERATORS[type(node.op)](self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node):
        return -self.visit(node.operand)

    def visit_Constant(self, node):
        return node.value

    def unsupported(self, node):
        raise ValueError(f"unsupported syntax: {type(node).__name__}")


for text in ["2 + 3 * 4", "-(7 - 2) / 2", "len('abc')", "1 / 0"]:
    try:
        print(text, "=", Evaluator().visit(ast.parse(text, mode="eval")))
    except (ValueError, ZeroDivisionError) as e:
        print(text, "->", type(e).__name__, e)
