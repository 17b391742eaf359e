# expect: STOPPED EPERM|EAFNOSUPPORT
# Listen to every packet of an interface.
import errno
import socket


def attack():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as s:
        return f"a packet socket, descriptor {s.fileno()}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
