# expect: STOPPED MemoryError or status=memory
# Fill 1 GB of memory.
import errno


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    try:
        pieces = [b"x" * (16 << 20) for _ in range(64)]
    except MemoryError:
        raise Stopped("MemoryError") from None
    return f"{sum(map(len, pieces)) >> 20} MiB"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
