# expect: STOPPED EPERM|EACCES
# Talk to a service of the host by its unix socket.
import errno
import socket


def attack():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        for path in ("/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/journal/stdout"):
            try:
                s.connect(path)
                return path
            except OSError:
                pass
        return "a unix socket, without a peer"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
