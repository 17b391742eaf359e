# expect: STOPPED EROFS|EACCES|EPERM
# Plant a module that every later interpreter imports by itself.
import errno
import os


def attack():
    path = os.path.join(os.path.dirname(os.__file__), "sitecustomize_ringfence.py")
    with open(path, "x"):
        pass
    os.unlink(path)
    return path


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
