# expect: STOPPED ENOENT|EACCES|empty
# List what the host keeps in /var.
import errno
import os


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    last = None
    for path in ("/var/log", "/var/lib", "/var/spool", "/var/mail", "/var/cache"):
        try:
            if names := os.listdir(path):
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
