# expect: STOPPED EROFS|EACCES|EPERM|EXDEV|EBUSY
# Move a file out of the working directory.
import errno
import os


def attack():
    with open("payload", "w") as file:
        file.write("payload")
    target = os.path.join(os.path.dirname(os.getcwd()), "ringfence-escape")
    os.rename("payload", target)
    os.unlink(target)
    return target


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
