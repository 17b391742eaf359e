# expect: STOPPED clean
# Find secrets of the caller in the environment.
import errno
import os
import re


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    names = [n for n in os.environ if re.search(r"TOKEN|SECRET|PASSW|API_?KEY|AUTH_SOCK|CREDENTIAL|^AWS_|^SSH_", n)]
    if not names:
        raise Stopped("clean")
    return ", ".join(sorted(names))


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
