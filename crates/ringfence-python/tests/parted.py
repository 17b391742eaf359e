"""Programs whose last expression is found in both ways: what they print, what it is, where an error is, must not differ."""
import contextlib, io, sys
text = sys.argv[1]
sys.argv = ["-c", text, '{"packages": [], "environment": null, "setup": []}', ""]
exec(compile(text, "guest", "exec"), globals())

def outcome(parts):
    said, namespace = io.StringIO(), {}
    with contextlib.redirect_stdout(said):
        try:
            main, last = parts
            if main is not None:
                exec(main, namespace)
            value = repr(eval(last, namespace)) if last else None
        except Exception as error:
            line = error.lineno if isinstance(error, SyntaxError) else error.__traceback__.tb_next.tb_lineno
            value = "%s in line %s" % (type(error).__name__, line)
    return said.getvalue(), value, sorted(set(namespace) - {"__builtins__"})

def parts(way, program):
    try:
        return way(program, "main.py")
    except Exception as error:
        return error

PROGRAMS = [
    "1 + 1", "x = 1", "", "\n\n", "# only a comment", "'a docstring'", "'a docstring'\n'and a value'",
    "x = 2\nx", "x = 2\nx\n\n\n", "x = 2\nx  # and why", "x = 2\nx\n# a comment", "x = 2\nx;", "x = 2; x", "print(1); 2",
    "if True:\n    x = 3\nx", "if True:\n    x = 3\n    x", "def f():\n    return 4\nf()", "for i in range(3): print(i)",
    "class A:\n    b = 5\nA.b", "try:\n    1 / 0\nexcept ZeroDivisionError: x = 6\nx", "if 0: pass\nelse: x = 1",
    "x = [\n1,\n2\n]", "x = [1]\nx[\n0\n]", "x = '''\n1'''", "x = '''\n1\n'''\nx", "'''\n1\n'''", "x = 1 + \\\n2", "x = 1\\\n\n2",
    "\\\n7", "x = 8 \\\n\nx", "f = lambda: 1\nf()\n(2)", "x = 1\n(x)", "x = 1\n-x", "x = [1]\n[0]", "x = 1\n*x, 2", "*[1], 2",
    "(y := 9)", "x = 1\n(y := 9)", "y := 9", "yield 1", "await x", "return 1", "(lambda: 1)()", "(lambda: (yield))().__name__",
    "from __future__ import annotations\n1", "x = 1\r\nx", "x = 1\rx", "\ufeff1", "x = 1\n\fx", "\fx", "x=1\n\tx", " 1", "x = 1\n  x",
    "1 / 0", "x = 1\n\n\n1 / 0", "x = 1\n\n\nunknown", "x = (\n1 / 0)\n2", "def f():\n    1 / 0\n\nf()", "x = 1\nx +", "x = (1\nx",
    "x = \n1", "match = 1\nmatch", "case = 2\ncase", "type = 3\ntype", "print(1)\nprint(2)", "@f\nx", "a\0b", "x\n)", "1\n]", "é = 1\né",
    "x = 1\nx if x else 0", "not 1", "None", "...", "f'{1}'", "x = 1\nf'''\n{x}'''", "async def f(): pass\nf.__name__", "del x\n1", "pass\n1", "1\npass",
    "x = {\n'a': 1}\nx['a']\n\n# fin\n", "with open('/dev/null') as f: pass\nf.closed", "while False:\n  1\nelse:\n  x = 2\nx", "x = 1;\nx",
]
n_parted = 0
for program in PROGRAMS:
    short = parts(parted, program)
    tree = parts(parted_as_tree, program)
    if short is None:
        continue
    n_parted += 1
    assert not isinstance(short, Exception), (program, short)
    assert not isinstance(tree, Exception), (program, tree)
    assert outcome(short) == outcome(tree), (program, outcome(short), outcome(tree))
print(n_parted)
