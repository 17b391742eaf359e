# presets: standard,data,open
class AppError(Exception):
    """Base of the application's errors."""

    code = 1


class NotFound(AppError):
    code = 44

    def __init__(self, what, *, hint=None):
        self.what, self.hint = what, hint
        super().__init__(f"{what} not found" + (f" (try {hint})" if hint else ""))


def load(key):
    table = {"alpha": 1}
    try:
        return table[key]
    except KeyError as e:
        raise NotFound(key, hint="alpha") from e


def cleanup_order():
    try:
        try:
            print("try")
            return "from try"
        finally:
            print("inner finally")
    except Exception:
        print("never")
    else:
        print("skipped by return")
    finally:
        print("outer finally")


print(load("alpha"))
try:
    load("beta")
except AppError as e:
    print(type(e).__name__, e.code, e, "| cause:", repr(e.__cause__))

try:
    try:
        1 / 0
    except ZeroDivisionError:
        int("x")
except ValueError as e:
    print("context:", type(e.__context__).__name__, "suppressed:", e.__suppress_context__)

print(cleanup_order())

for value in ("10", "0", "ten", None):
    try:
        result = 100 / int(value)
    except (TypeError, ValueError) as e:
        print(f"{value!r}: cannot convert ({type(e).__name__})")
    except ZeroDivisionError:
        print(f"{value!r}: infinite")
    else:
        print(f"{value!r}: {result}")
    finally:
        pass
assert issubclass(NotFound, AppError) and NotFound.code == 44
