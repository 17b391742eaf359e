# expect: STOPPED EPERM
# Allow core dumps, which would hold the interpreter's memory; none is made.
import ctypes
import errno
import os

NUMBER = {"x86_64": 302, "aarch64": 261}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    unlimited = (ctypes.c_uint64 * 2)(2**64 - 1, 2**64 - 1)
    syscall(NUMBER, 0, 4, unlimited, None)  # RLIMIT_CORE
    return "core dumps are allowed"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
