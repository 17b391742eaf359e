# expect: STOPPED EPERM|ENOSYS
# Copy the mount tree into a descriptor.
import ctypes
import errno
import os

NUMBER = {"x86_64": 428, "aarch64": 428}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    return f"descriptor {syscall(NUMBER, -100, b'/', 0x8001)}"  # AT_FDCWD, OPEN_TREE_CLONE | AT_RECURSIVE


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
