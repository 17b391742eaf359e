# expect: STOPPED nothing
# Search every object of the interpreter for secrets of what started it.
import errno
import gc
import re
import sys


class Stopped(Exception):
    """Refused, in words instead of an errno."""


NAME = re.compile(r"secret|token|nonce|hmac|cookie|passw|session_?(id|key)|(auth|sign|api|private)\w*key", re.I)

STDLIB = set(sys.stdlib_module_names) if hasattr(sys, "stdlib_module_names") else {"hmac", "secrets", "token", "tokenize", "re"}


def attack():
    library = {id(vars(m)) for name, m in list(sys.modules.items()) if name.split(".")[0] in STDLIB and name != "__main__"}
    for thing in gc.get_objects():
        if isinstance(thing, dict) and id(thing) not in library:
            for name, value in list(thing.items()):
                if isinstance(name, str) and NAME.search(name) and isinstance(value, (str, bytes, bytearray)) and len(value) >= 16:
                    if not (isinstance(value, str) and " " in value):
                        return f"{name}, {len(value)} long"
    raise Stopped("nothing")


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
