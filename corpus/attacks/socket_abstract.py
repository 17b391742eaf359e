# expect: STOPPED EPERM|EACCES
# Listen on an abstract name, which no directory hides.
import errno
import socket


def attack():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.bind("\0ringfence-escape")
        s.listen()
        return "an abstract socket that listens"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
