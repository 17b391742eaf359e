# expect: STOPPED EPERM
# Take or drop groups.
import errno
import os


def attack():
    os.setgroups([0])
    return f"groups {os.getgroups()}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
