# expect: STOPPED EPERM
# Install a filter of its own that allows everything.
import ctypes
import errno
import os

NUMBER = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    allow = (ctypes.c_uint64 * 1)(0x7FFF0000 << 32 | 0x06)  # BPF_RET, SECCOMP_RET_ALLOW
    program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(allow))
    syscall(NUMBER, 1, 0, program)  # SECCOMP_SET_MODE_FILTER
    return "a filter of its own"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
