# expect: STOPPED EPERM
# Raise the hard limit of descriptors.
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
    old, huge = (ctypes.c_uint64 * 2)(), 1 << 20
    syscall(NUMBER, 0, 7, None, old)  # RLIMIT_NOFILE
    if old[1] >= huge:
        return f"the limit is {old[1]}"
    syscall(NUMBER, 0, 7, (ctypes.c_uint64 * 2)(huge, huge), None)
    return f"from {old[1]} to {huge} descriptors"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
