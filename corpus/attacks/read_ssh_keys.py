# expect: STOPPED ENOENT|EACCES
# Read a private key from any home.
import errno
import glob
import os


def attack():
    last = FileNotFoundError(errno.ENOENT, "no home has keys")
    for home in [os.path.expanduser("~"), "/root", *glob.glob("/home/*")]:
        try:
            for name in os.listdir(home + "/.ssh"):
                with open(f"{home}/.ssh/{name}", "rb") as file:
                    file.read(1)
                return f"{home}/.ssh/{name}"
        except OSError as error:
            last = error
    raise last


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
