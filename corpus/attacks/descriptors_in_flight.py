# expect: STOPPED EPERM|ETOOMANYREFS
# Send descriptors that nobody receives: they are counted for the user, and hold up everybody else's.
import array
import errno
import socket

a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    for _ in range(100):
        rights = array.array("i", [a.fileno()] * 20)
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    print("ESCAPED 2,000 descriptors in flight")
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
