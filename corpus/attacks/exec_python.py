# expect: STOPPED EPERM|ENOENT|EACCES
# Become a fresh interpreter, without whatever was done to this one.
import errno
import os
import sys


def attack():
    os.execv(sys.executable or "/usr/bin/python3", ["python3", "-c", "print('ESCAPED as a fresh interpreter')"])


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
