# expect: ok
def make_polynomial(coefficients, name="poly"):
    """Build a function from source text: faster than a loop over coefficients."""
    terms = [f"{c} * x ** {i}" for i, c in enumerate(coefficients) if c]
    source = f"def {name}(x):\n    return {' + '.join(terms)}\n"
    namespace = {}
    exec(source, namespace)
    return namespace[name], source


f, source = make_polynomial([1, 0, 3, 2])
print(source)
print([f(x) for x in range(5)])

code = """
squares = {}
for n in range(1, 6):
    squares[n] = n * n
"""
exec(code)
print(squares)
