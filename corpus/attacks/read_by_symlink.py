# expect: STOPPED ENOENT|EACCES
# Plant a symbolic link in the working directory and read through it.
import errno
import os


def attack():
    os.symlink("/etc/shadow", "innocent.txt")
    with open("innocent.txt") as file:
        return f"{len(file.read())} bytes through the link"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
