# expect: STOPPED EPERM|ENOENT
# Start a program by posix_spawn.
import errno
import os


def attack():
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    return "/bin/true ran"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
