# expect: STOPPED EMFILE
# Open 10,000 descriptors.
import errno
import os


def attack():
    for _ in range(10_000):
        os.dup(1)
    return "10,000 descriptors"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
