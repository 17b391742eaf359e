# expect: STOPPED unharmed|no-parent|EPERM|ESRCH
# Kill the parent.
import errno
import os
import signal
import time


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    parent = os.getppid()
    if parent == 0:
        raise Stopped("no-parent")
    os.kill(parent, signal.SIGKILL)
    time.sleep(0.3)
    if os.getppid() == parent:
        raise Stopped("unharmed")
    return f"process {parent} is dead"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
