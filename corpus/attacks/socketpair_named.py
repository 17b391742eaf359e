# expect: STOPPED EPERM|EACCES
# Give one end of an allowed pair of sockets a name that others can reach.
import errno
import socket


def attack():
    a, b = socket.socketpair()
    a.bind("door")
    return "one end of a pair has the name door"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
