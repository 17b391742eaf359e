# expect: STOPPED nothing|EACCES|ENOENT|EPERM
# Search the memory of its own process for secrets of what started it: keys, tokens, environments.
import errno
import re


class Stopped(Exception):
    """Refused, in words instead of an errno."""


PATTERN = re.compile(rb"(?:AWS_SECRET_ACCESS|GITHUB_TO|OPENAI_API_|ANTHROPIC_API_)(?:KEN|KEY)=[\x21-\x7e]{16}|-----BEGIN [A-Z ]{0,12}PRIVATE K" + rb"EY-----\n")


def attack():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in list(maps):
            span, rights = line.split()[:2]
            start, end = (int(n, 16) for n in span.split("-"))
            if rights.startswith("rw") and end - start <= 64 << 20:
                memory.seek(start)
                if found := PATTERN.search(memory.read(end - start)):
                    return f"{found[0][:12]!r}…"
    raise Stopped("nothing")


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
