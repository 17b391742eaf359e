# expect: STOPPED ENOENT|EACCES|EPERM|EROFS|ENOSPC|EFBIG|EDQUOT or status=memory or status=killed
# Fill 1 GB of /dev/shm.
import errno
import os


def attack():
    file, block = os.open("/dev/shm/hog", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), bytes(1 << 20)
    os.unlink("/dev/shm/hog")
    for _ in range(1024):
        os.write(file, block)
    return "1024 MiB"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
