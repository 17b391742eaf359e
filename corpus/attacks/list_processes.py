# expect: STOPPED alone|ENOENT|EACCES
# See the processes of the host.
import errno
import os


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    others = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid(), os.getppid())]
    if not others:
        raise Stopped("alone")
    return f"{len(others)} other processes"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
