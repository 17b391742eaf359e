# expect: STOPPED ENOENT|EACCES
# Read the host's password hashes.
import errno


def attack():
    with open("/etc/shadow") as file:
        return f"{len(file.readlines())} password hashes"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
