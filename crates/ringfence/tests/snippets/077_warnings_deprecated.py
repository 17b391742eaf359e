# expect: ok
import functools
import warnings


def deprecated(replacement):
    def decorator(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            warnings.warn(
                f"{func.__name__} is deprecated, use {replacement}", DeprecationWarning, stacklevel=2
            )
            return func(*args, **kwargs)
        return wrapper
    return decorator


@deprecated("new_sum")
def old_sum(values):
    return sum(values)


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(old_sum([1, 2, 3]))
print([(w.category.__name__, str(w.message)) for w in caught])

warnings.filterwarnings("error", category=UserWarning)
try:
    warnings.warn("disk almost full", UserWarning)
except UserWarning as e:
    print("raised:", e)
