# expect: STOPPED EPERM|EINVAL
# Become root.
import errno
import os


def attack():
    os.setresuid(0, 0, 0)
    return f"uid {os.getuid()}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
