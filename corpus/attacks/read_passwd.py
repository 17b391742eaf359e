# expect: STOPPED ENOENT|EACCES|own-file
# Read the host's list of users. A short file made for the run tells nothing.
import errno


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    with open("/etc/passwd") as file:
        users = [line for line in file if ":" in line]
    if len(users) <= 4 and not any("/home/" in line for line in users):
        raise Stopped("own-file")
    return f"{len(users)} users of the host"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
