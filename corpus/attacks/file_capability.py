# expect: STOPPED EPERM|EOPNOTSUPP|EACCES
# Leave a program with file capabilities behind.
import errno
import os
import struct


def attack():
    with open("tool", "w"):
        pass
    every = 0xFFFFFFFF
    os.setxattr("tool", "security.capability", struct.pack("<5I", 0x02000001, every, every, every, every))
    return "a file with capabilities"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
