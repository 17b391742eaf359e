# expect: STOPPED ENOENT|EACCES|EPERM
# Leave the run's root by /proc/self/root and dots.
import errno


def attack():
    path = "/proc/self/root" + "/.." * 12 + "/etc/shadow"
    with open(path) as file:
        return f"{len(file.read())} bytes of {path}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
