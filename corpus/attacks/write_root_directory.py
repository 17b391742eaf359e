# expect: STOPPED EROFS|EACCES|EPERM
# Create a file in the root directory.
import errno
import os


def attack():
    path = "/ringfence-escape"
    with open(path, "x"):
        pass
    os.unlink(path)
    return path


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
