# expect: STOPPED only-pipes|nothing-inherited
# Look for an inherited descriptor that is a file, a directory or a device.
import errno
import os
import stat


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    pipes = 0
    for descriptor in range(3, 256):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target != "/dev/null" and target != os.path.abspath(globals().get("__file__", "")):
                return f"descriptor {descriptor} is {target}"
        pipes += 1
    raise Stopped("only-pipes" if pipes else "nothing-inherited")


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
