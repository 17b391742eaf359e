# expect: ok
import code
import contextlib
import io


def run_cells(cells):
    """Run pieces of code one after another with shared variables, as a notebook does."""
    shell = code.InteractiveInterpreter({"__name__": "__console__"})
    for number, cell in enumerate(cells, 1):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            shell.runsource(cell, "<cell>", "single" if "\n" not in cell else "exec")
        print(f"Out[{number}]:", out.getvalue().strip() or (err.getvalue().strip().splitlines() or ["-"])[-1])
    return shell.locals


variables = run_cells(["x = 20", "x + 1", "def f(n):\n    return n * x\n", "f(3)", "1 / 0", "print(f(x))"])
print(variables["x"])
print(code.compile_command("if True:") is None)
