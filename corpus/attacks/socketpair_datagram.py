# expect: STOPPED EPERM|EACCES
# Make a pair of datagram sockets: with sendto they reach any path.
import errno
import socket


def attack():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return f"datagram sockets, descriptors {a.fileno()} and {b.fileno()}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
