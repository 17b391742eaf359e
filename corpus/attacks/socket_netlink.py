# expect: STOPPED EPERM|EAFNOSUPPORT
# Ask the kernel for interfaces and routes.
import errno
import socket


def attack():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        return f"a netlink socket, descriptor {s.fileno()}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
