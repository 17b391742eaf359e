# expect: STOPPED EPERM
# Leave a program with the set-user-id bit behind.
import errno
import os


def attack():
    with open("tool", "w"):
        pass
    os.chmod("tool", 0o4755)
    return oct(os.stat("tool").st_mode)


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
