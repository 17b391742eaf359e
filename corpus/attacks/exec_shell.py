# expect: STOPPED EPERM|ENOENT|EACCES
# Become a shell.
import errno
import os


def attack():
    os.execv("/bin/sh", ["sh", "-c", "echo ESCAPED as a shell"])


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
