# expect: STOPPED unchanged|EPERM|EINVAL
# Run on processors that were not given.
import errno
import os


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(1024))
    after = os.sched_getaffinity(0)
    if after <= before:
        raise Stopped("unchanged")
    return f"{len(after - before)} more processors"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
