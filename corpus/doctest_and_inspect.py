# presets: data,open
import doctest
import inspect
import io
import sys
import types


def slug(text: str, sep: str = "-") -> str:
    """Make a slug.

    >>> slug("Hello World")
    'hello-world'
    >>> slug("a b c", sep="_")
    'a_b_c'
    >>> slug("")
    ''
    """
    return sep.join(text.lower().split())


def clamp(x: float, low: float = 0, high: float = 1) -> float:
    """
    >>> clamp(5)
    1
    >>> clamp(-1, low=-3)
    -1
    """
    return max(low, min(high, x))


finder = doctest.DocTestFinder()
runner = doctest.DocTestRunner(verbose=False)
for func in (slug, clamp):
    for test in finder.find(func, func.__name__, globs={func.__name__: func}):
        outcome = runner.run(test, out=io.StringIO().write)
        print(func.__name__, "attempted", outcome.attempted, "failed", outcome.failed)

print(inspect.signature(clamp))
print([p.name for p in inspect.signature(slug).parameters.values() if p.default is not p.empty])
print(inspect.getdoc(slug).splitlines()[0], inspect.isfunction(slug), inspect.isgeneratorfunction(slug))
bound = inspect.signature(slug).bind("x y", sep="+")
print(dict(bound.arguments), slug(*bound.args, **bound.kwargs))
module = types.ModuleType("helpers", "made at run time")
module.twice = lambda x: 2 * x
sys.modules["helpers"] = module
import helpers
print(helpers.twice(21), helpers.__doc__)
print(types.SimpleNamespace(a=1, b="two"), isinstance(slug, types.FunctionType))
