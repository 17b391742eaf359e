# expect: STOPPED EPERM|ENOSYS
# Get a ring whose operations no filter sees.
import ctypes
import errno
import os

NUMBER = {"x86_64": 425, "aarch64": 425}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    return f"a ring, descriptor {syscall(NUMBER, 4, (ctypes.c_uint32 * 30)())}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
