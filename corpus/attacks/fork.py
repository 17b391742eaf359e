# expect: STOPPED EPERM
# Make a process.
import errno
import os


def attack():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "a child by fork"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
