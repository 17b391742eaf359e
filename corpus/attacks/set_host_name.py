# expect: STOPPED EPERM
# Name the host; as it is named already.
import errno
import os
import socket


def attack():
    socket.sethostname(os.uname().nodename)
    return "the host has a new name"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
