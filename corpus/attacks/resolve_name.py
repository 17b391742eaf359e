# expect: STOPPED unresolved|EPERM|EACCES
# Send data out in a name to look up.
import errno
import socket


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    try:
        return socket.getaddrinfo("secret.example.com", 80)[0][4][0]
    except socket.gaierror:
        raise Stopped("unresolved") from None


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
