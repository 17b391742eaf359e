# expect: STOPPED EPERM|EAFNOSUPPORT
# Talk to the hypervisor.
import errno
import socket


def attack():
    with socket.socket(40, socket.SOCK_STREAM) as s:  # AF_VSOCK
        return f"a socket to the hypervisor, descriptor {s.fileno()}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
