# expect: STOPPED EPERM
# Be told by signal when others read files of a directory that is shared with them.
import errno
import fcntl
import os

directory = os.open("/usr/lib", os.O_RDONLY)
try:
    fcntl.fcntl(directory, 1026, 1 | 0x80000000 - (1 << 32))
    print("ESCAPED a watch on /usr/lib")
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
