# expect: STOPPED EXDEV|EPERM|EACCES|EROFS
# Give a file of the standard library a second name where writing is allowed.
import errno
import os


def attack():
    os.link(os.__file__, "os.py")
    with open("os.py", "a") as file:
        file.write("")
    return "a writable name for " + os.__file__


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
