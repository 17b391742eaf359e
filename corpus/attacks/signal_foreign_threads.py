# expect: STOPPED ESRCH|EPERM
# Signal threads that are not its own by guessing their numbers; signal 0.
import ctypes
import errno
import os

NUMBER = {"x86_64": 200, "aarch64": 130}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    own = {1, os.getpid(), os.getppid()} | {int(name) for name in os.listdir("/proc/self/task")}
    for thread in range(1, 40000):
        try:
            if thread not in own:
                syscall(NUMBER, thread, 0)  # tkill
                return f"thread {thread}"
        except OSError as error:
            last = error
    raise last


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
