# presets: standard,data,open
import functools


def trace(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        shown = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
        result = func(*args, **kwargs)
        print(f"{func.__name__}({', '.join(shown)}) -> {result!r}")
        return result

    return wrapper


def retry(times, exceptions=(Exception,)):
    def decorate(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            for attempt in range(1, times + 1):
                try:
                    return func(*args, **kwargs)
                except exceptions as exc:
                    print(f"  attempt {attempt} failed: {exc}")
            raise RuntimeError(f"{func.__name__} gave up after {times}")

        return wrapper

    return decorate


def count_calls(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return func(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


@trace
def power(base, exp=2):
    """Raise base to exp."""
    return base**exp


@retry(3, (ConnectionError,))
@count_calls
def flaky(ok_after):
    if flaky_state["n"] < ok_after:
        flaky_state["n"] += 1
        raise ConnectionError(f"no route ({flaky_state['n']})")
    return "connected"


flaky_state = {"n": 0}
power(3)
power(2, exp=10)
print(power.__name__, "-", power.__doc__)
print(flaky(2))
flaky_state["n"] = 0
try:
    flaky(10)
except RuntimeError as e:
    print("RuntimeError:", e)
