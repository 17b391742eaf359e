# expect: STOPPED ENOENT|EACCES|EPERM
# Open a device of the host: memory, kernel log, disks, virtual machines, fuse, input.
import errno
import glob
import os


def attack():
    last = FileNotFoundError(errno.ENOENT, "no device")
    names = ["mem", "kmsg", "kvm", "fuse", "port", "loop-control", "net/tun", "uinput", "vhost-net", "userfaultfd"]
    for path in ["/dev/" + name for name in names] + glob.glob("/dev/[svn][dv]?*") + glob.glob("/dev/input/*"):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            return path
        except OSError as error:
            last = error
    raise last


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
