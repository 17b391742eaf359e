# expect: STOPPED EPERM
# Make a BPF map.
import ctypes
import errno
import os

NUMBER = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    attributes = (ctypes.c_uint32 * 32)(1, 4, 4, 1)  # BPF_MAP_TYPE_HASH, key, value, entries
    return f"a map, descriptor {syscall(NUMBER, 0, attributes, ctypes.sizeof(attributes))}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
