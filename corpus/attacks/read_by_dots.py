# expect: STOPPED ENOENT|EACCES
# Climb out of the working directory with a directory descriptor.
import errno
import os


def attack():
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    file = os.open("../" * 30 + "etc/shadow", os.O_RDONLY, dir_fd=here)
    return f"{len(os.read(file, 4096))} bytes of /etc/shadow"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
