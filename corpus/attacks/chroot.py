# expect: STOPPED EPERM
# The classic way out: a root below an open directory, then dots.
import errno
import os


def attack():
    os.mkdir("jail")
    outside = os.open(".", os.O_RDONLY)
    os.chroot("jail")
    os.fchdir(outside)
    os.chdir("../" * 30)
    return f"{len(os.listdir('.'))} entries above the root"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
