# expect: STOPPED EPERM|EACCES
# Take precedence over the host's programs.
import errno
import os


def attack():
    os.setpriority(os.PRIO_PROCESS, 0, -10)
    return f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
