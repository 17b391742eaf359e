# presets: data,open
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial, reduce, singledispatch


@singledispatch
def render(value):
    return f"<{type(value).__name__}>"


@render.register(int)
@render.register(float)
def _(value):
    return f"{value:,}"


@render.register
def _(value: str):
    return repr(value)


@render.register(list)
@render.register(tuple)
def _(value):
    return "[" + "; ".join(map(render, value)) + "]"


@render.register
def _(value: dict):
    return "{" + ", ".join(f"{k} → {render(v)}" for k, v in value.items()) + "}"


@render.register
def _(value: date):
    return value.strftime("%d %b %Y")


@dataclass
class Report:
    rows: list

    @cached_property
    def total(self):
        print("(computing)")
        return reduce(lambda acc, row: acc + row[1], self.rows, 0)


print(render({"n": 1234567, "s": "tëxt", "l": [1, (2.5, "x")], "d": date(2024, 7, 4), "o": object()}))
print(render(True), render(None))
report = Report([("a", 10), ("b", 32)])
print(report.total, report.total)
hexadecimal = partial(int, base=16)
print([hexadecimal(h) for h in ("ff", "10", "DEAD")])
compose = lambda *fs: reduce(lambda f, g: lambda x: g(f(x)), fs)
print(compose(str.strip, str.title, lambda s: s.replace(" ", "_"))("  hello big world "))
