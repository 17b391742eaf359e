# expect: STOPPED EACCES|EPERM|ENOENT|ENXIO|only-pipes
# Open the files behind the standard streams anew, for what the descriptors do not allow.
import errno
import os
import stat


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    for descriptor in range(3):
        mode = os.fstat(descriptor).st_mode
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        if stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and target != "/dev/null"):
            os.close(os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_NONBLOCK))
            return f"{target}, for reading and writing"
    raise Stopped("only-pipes")


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
