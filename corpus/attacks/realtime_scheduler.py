# expect: STOPPED EPERM
# Become a real-time process.
import errno
import os


def attack():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    return "SCHED_FIFO"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
