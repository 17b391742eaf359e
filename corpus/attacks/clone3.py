# expect: STOPPED ENOSYS|EPERM
# Make a process by clone3, whose flags a filter cannot see.
import ctypes
import errno
import os

NUMBER = {"x86_64": 435, "aarch64": 435}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    args = (ctypes.c_uint64 * 8)()
    args[4] = 17  # SIGCHLD
    child = syscall(NUMBER, args, ctypes.sizeof(args))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "a child by clone3"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
