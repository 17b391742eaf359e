# expect: ok
import functools
import time


def retry(times=3, delay=0.01, exceptions=(Exception,)):
    def decorator(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            last = None
            for attempt in range(1, times + 1):
                try:
                    return func(*args, **kwargs)
                except exceptions as e:
                    last = e
                    print(f"Attempt {attempt} failed: {e}")
                    time.sleep(delay * attempt)
            raise RuntimeError(f"gave up after {times} attempts") from last
        return wrapper
    return decorator


state = {"n": 0}


@retry(times=3, exceptions=(ConnectionError,))
def flaky():
    state["n"] += 1
    if state["n"] < 3:
        raise ConnectionError("server is busy")
    return "success"


print(flaky())
