# expect: STOPPED EROFS|EACCES|EPERM|ENOENT
# Change a setting of the kernel.
import errno


def attack():
    for name in ("kernel/modprobe", "vm/drop_caches", "kernel/core_pattern", "kernel/hostname"):
        try:
            with open("/proc/sys/" + name, "w"):
                return "/proc/sys/" + name
        except OSError as error:
            last = error
    raise last


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
