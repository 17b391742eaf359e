# expect: STOPPED unchanged
# Change the limit on core dumps: with any but 1 the host's handler would get the interpreter's memory.
import ctypes
import errno
import os
import resource

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
    for size in (0, 2**64 - 1):
        limits = (ctypes.c_uint64 * 2)(size, size)
        syscall(NUMBER, 0, 4, limits, None)  # RLIMIT_CORE
        resource.setrlimit(resource.RLIMIT_CORE, (size % 2**63, size % 2**63))
    return resource.getrlimit(resource.RLIMIT_CORE)


try:
    found = attack()
    print("STOPPED unchanged" if found == (1, 1) else f"ESCAPED {found}")
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
