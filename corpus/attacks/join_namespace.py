# expect: STOPPED EPERM|ENOENT|EACCES
# Enter the network namespace of the first process.
import ctypes
import errno
import os

NUMBER = {"x86_64": 308, "aarch64": 268}[os.uname().machine]
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
        namespace = os.open("/proc/1/ns/net", os.O_RDONLY)
    except OSError:
        namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    syscall(NUMBER, namespace, 0)
    return "another namespace"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
