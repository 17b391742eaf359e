# expect: STOPPED EPERM|ENOSYS|ENOSPC|ENOMEM|EFBIG or status=memory
# Fill 1 GB of a file in memory, which a limit on the process does not count.
import errno
import os


def attack():
    file, block = os.memfd_create("hog"), bytes(1 << 20)
    for _ in range(1024):
        os.write(file, block)
    return "1024 MiB"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
