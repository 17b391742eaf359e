# expect: STOPPED EPERM
# Type a command into the terminal this was started from.
import errno
import fcntl
import os


def attack():
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        terminal = 0
    fcntl.ioctl(terminal, 0x5412, b" ")  # TIOCSTI
    return "a key was pressed"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
