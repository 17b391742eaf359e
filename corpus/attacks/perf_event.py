# expect: STOPPED EPERM|EACCES
# Count events of the kernel.
import ctypes
import errno
import os

NUMBER = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    attributes = (ctypes.c_uint32 * 32)(1, 128)  # PERF_TYPE_SOFTWARE, size
    return f"descriptor {syscall(NUMBER, attributes, 0, -1, -1, 0)}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
