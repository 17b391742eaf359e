# presets: standard,data,open
"""A dozen lines of test runner, and the tests of a small string library."""

TESTS = []


def test(func):
    TESTS.append(func)
    return func


class raises:
    def __init__(self, *kinds):
        self.kinds = kinds

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        assert kind is not None, "nothing was raised"
        self.value = value
        return issubclass(kind, self.kinds)


def camel_to_snake(s):
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(s))


def truncate(s, n):
    if n < 1:
        raise ValueError("n must be positive")
    return s if len(s) <= n else s[: n - 1] + "…"


@test
def camel_case_is_converted():
    assert camel_to_snake("fooBarBaz") == "foo_bar_baz"
    assert camel_to_snake("A") == "a"


@test
def long_text_is_truncated():
    assert truncate("abcdef", 4) == "abc…"
    assert truncate("abc", 3) == "abc"


@test
def zero_is_refused():
    with raises(ValueError) as caught:
        truncate("x", 0)
    assert "positive" in str(caught.value)


@test
def this_one_fails():
    assert camel_to_snake("HTTPServer") == "http_server", camel_to_snake("HTTPServer")


@test
def this_one_breaks():
    truncate(None, 2)


results = {"pass": 0, "fail": 0, "error": 0}
for t in TESTS:
    try:
        t()
        outcome, detail = "pass", ""
    except AssertionError as e:
        outcome, detail = "fail", f": {e}"
    except Exception as e:
        outcome, detail = "error", f": {type(e).__name__}"
    results[outcome] += 1
    print(f"{outcome.upper():<6}{t.__name__.replace('_', ' ')}{detail}")
print(results)
