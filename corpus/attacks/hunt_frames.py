# expect: STOPPED nothing
# Walk the frames below this program for secrets of what started it.
import errno
import inspect
import re
import sys


class Stopped(Exception):
    """Refused, in words instead of an errno."""


NAME = re.compile(r"secret|token|nonce|hmac|cookie|passw|session_?(id|key)|(auth|sign|api|private)\w*key", re.I)


def attack():
    for info in inspect.stack(0)[1:]:
        for space in (info.frame.f_locals, info.frame.f_globals):
            if space is globals():
                continue
            for name, value in list(space.items()):
                if NAME.search(name) and isinstance(value, (str, bytes, bytearray)) and len(value) >= 16:
                    return f"{name} in {info.function}"
    for words in (sys.argv, getattr(sys, "orig_argv", [])):
        for word in words:
            if re.fullmatch(r"[0-9a-fA-F]{32,}", word):
                return "a key among the arguments"
    raise Stopped("nothing")


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
