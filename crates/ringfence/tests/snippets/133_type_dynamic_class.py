# expect: ok
def make_model(name, **columns):
    def __init__(self, **values):
        for column, kind in columns.items():
            setattr(self, column, kind(values.get(column, kind())))

    def __repr__(self):
        inner = ", ".join(f"{c}={getattr(self, c)!r}" for c in columns)
        return f"{type(self).__name__}({inner})"

    return type(name, (object,), {"__init__": __init__, "__repr__": __repr__, "columns": tuple(columns)})


Product = make_model("Product", title=str, price=float, stock=int)
print(Product(title="Lamp", price="19.5"), Product.columns)

errors = {n: type(n, (Exception,), {"code": c}) for n, c in [("NotFound", 404), ("Forbidden", 403)]}
try:
    raise errors["NotFound"]("page 7")
except Exception as e:
    print(type(e).__name__, e.code, e, isinstance(e, errors["Forbidden"]))

Loud = type("Loud", (str,), {"shout": lambda self: self.upper() + "!"})
print(Loud("hello").shout(), Loud.__bases__, type(Loud) is type)
