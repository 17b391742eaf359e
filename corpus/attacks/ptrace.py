# expect: STOPPED EPERM
# Trace the first process, or let the parent trace this one.
import ctypes
import errno
import os

NUMBER = {"x86_64": 101, "aarch64": 117}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    try:
        syscall(NUMBER, 0x4206, 1, 0, 0)  # PTRACE_SEIZE
        return "process 1 is traced"
    except OSError:
        syscall(NUMBER, 0, 0, 0, 0)  # PTRACE_TRACEME
        return "traced by the parent"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
