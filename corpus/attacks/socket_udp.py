# expect: STOPPED EPERM|EACCES
# Send a datagram to a name server.
import errno
import socket


def attack():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        return f"a UDP socket, descriptor {s.fileno()}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
