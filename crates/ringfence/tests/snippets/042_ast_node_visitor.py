# expect: ok
import ast

SOURCE = '''
import os, sys
from collections import Counter
def greet(name, punctuation="!"):
    """Return a greeting."""
    return f"Hello {name}{punctuation}"

class Greeter:
    def run(self):
        print(greet("you"))
'''


class Report(ast.NodeVisitor):
    def __init__(self):
        self.functions, self.imports, self.calls = [], [], []

    def visit_FunctionDef(self, node):
        arguments = [a.arg for a in node.args.args]
        self.functions.append((node.name, arguments, ast.get_docstring(node)))
        self.generic_visit(node)

    def visit_Import(self, node):
        self.imports += [alias.name for alias in node.names]

    def visit_ImportFrom(self, node):
        self.imports.append(node.module)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name):
            self.calls.append(node.func.id)
        self.generic_visit(node)


report = Report()
report.visit(ast.parse(SOURCE))
print(report.functions, report.imports, report.calls, sep="\n")
