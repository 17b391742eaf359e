# expect: STOPPED EPERM
# Swap into a file of the run; the file is no swap area, so that nothing is swapped.
import ctypes
import errno
import os

NUMBER = {"x86_64": 167, "aarch64": 224}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    with open("swap", "wb") as file:
        file.write(bytes(8192))
    syscall(NUMBER, b"swap", 0)
    return "swapping"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
