# expect: STOPPED EPERM
# Make a device node for the host's memory.
import errno
import os
import stat


def attack():
    os.mknod("mem", stat.S_IFCHR | 0o600, os.makedev(1, 1))
    return "a device node"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
