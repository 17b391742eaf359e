# expect: STOPPED EPERM|ENOSYS
# Copy a descriptor out of another process.
import ctypes
import errno
import os

NUMBER = {"x86_64": 434, "aarch64": 434}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    for pid in (1, os.getpid()):
        process = syscall(NUMBER, pid, 0)  # pidfd_open
        for number in range(10):
            try:
                return f"descriptor {number} of process {pid}: {syscall(438, process, number, 0)}"  # pidfd_getfd
            except OSError as error:
                last = error
    raise last


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
