# expect: STOPPED EPERM|ENOENT
# Run a shell command.
import errno
import subprocess


def attack():
    done = subprocess.run("id -u", shell=True, stdout=subprocess.PIPE)
    return "a shell says " + done.stdout.decode().strip()


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
