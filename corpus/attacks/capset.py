# expect: STOPPED EPERM
# Take every capability.
import ctypes
import errno
import os

NUMBER = {"x86_64": 126, "aarch64": 91}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    every = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF, 0xFFFFFFFF, 0] + [0x1FF, 0x1FF, 0])
    syscall(NUMBER, head, every)
    return "every capability"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
