# expect: STOPPED EROFS|EACCES|EPERM|ENOENT
# Create a file in /etc.
import errno
import os


def attack():
    path = "/etc/ringfence-escape"
    with open(path, "x"):
        pass
    os.unlink(path)
    return path


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
