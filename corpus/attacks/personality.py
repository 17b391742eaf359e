# expect: STOPPED EPERM
# Make every readable page executable.
import ctypes
import errno
import os

NUMBER = {"x86_64": 135, "aarch64": 92}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    syscall(NUMBER, 0x0400000)  # READ_IMPLIES_EXEC
    return "a personality of its own"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
