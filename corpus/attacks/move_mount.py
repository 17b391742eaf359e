# expect: STOPPED EPERM|ENOSYS
# Move a mount by its descriptor.
import ctypes
import errno
import os

NUMBER = {"x86_64": 429, "aarch64": 429}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    os.mkdir("point")
    root = os.open("/", os.O_PATH)
    syscall(NUMBER, root, b"", -100, b"point", 4)  # MOVE_MOUNT_F_EMPTY_PATH
    return "a mount, moved"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
