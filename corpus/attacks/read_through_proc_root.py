# expect: STOPPED EACCES|EPERM|ENOENT|alone|same-root
# Reach another tree through another process's /proc/PID/root.
import errno
import os


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    last, own = Stopped("alone"), os.stat("/")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            root = os.stat(f"/proc/{pid}/root/.")
            if (root.st_dev, root.st_ino) != (own.st_dev, own.st_ino):
                return f"/proc/{pid}/root is another root"
            last = Stopped("same-root")
        except OSError as error:
            last = error
    raise last


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
