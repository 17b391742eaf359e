# expect: STOPPED EPERM
# Raise a capability into the ambient set.
import ctypes
import errno
import os

NUMBER = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    syscall(NUMBER, 47, 2, 21, 0, 0)  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN
    return "an ambient capability"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
