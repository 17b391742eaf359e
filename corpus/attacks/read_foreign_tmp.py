# expect: STOPPED ENOENT|EACCES|empty
# Find files of others in the temporary directories.
import errno
import os


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    last, own = None, os.getcwd().split("/")
    for path in ("/tmp", "/var/tmp", "/run", "/dev/shm"):
        try:
            names = [name for name in os.listdir(path) if name not in own]
            if names:
                return f"{path}: {len(names)} entries"
        except OSError as error:
            last = error
    raise last or Stopped("empty")


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
