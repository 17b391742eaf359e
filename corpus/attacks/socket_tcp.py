# expect: STOPPED EPERM|EACCES
# Open a TCP socket.
import errno
import socket


def attack():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        return f"a TCP socket, descriptor {s.fileno()}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
