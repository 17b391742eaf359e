# expect: STOPPED ENOSPC|EFBIG|EDQUOT or status=killed
# Write 101 MB into the working directory, in several files.
import errno
import os


def attack():
    block = os.urandom(1 << 20)
    for number in range(101):
        with open(f"fill{number // 20}", "ab") as file:
            file.write(block)
    return "101 MiB"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
