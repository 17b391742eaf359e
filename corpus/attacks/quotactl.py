# expect: STOPPED EPERM
# Sync the quotas of every filesystem.
import ctypes
import errno
import os

NUMBER = {"x86_64": 179, "aarch64": 60}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attack():
    syscall(NUMBER, 0x80000100, None, 0, None)  # QCMD(Q_SYNC, USRQUOTA)
    return "quotactl answers"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
