# expect: STOPPED EPERM
# Open the root of the filesystem by its handle, past every path check.
import ctypes
import errno
import os

NUMBER = {"x86_64": 304, "aarch64": 265}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    here = os.open(".", os.O_RDONLY)
    handle = (ctypes.c_uint32 * 34)()
    handle[0], handle[1], handle[2] = 8, 1, 2  # eight bytes, FILEID_INO32_GEN, inode 2
    return f"descriptor {syscall(NUMBER, here, handle, os.O_RDONLY)}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
