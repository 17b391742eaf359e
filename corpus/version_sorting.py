# presets: standard,data,open
import re
from functools import total_ordering


@total_ordering
class Version:
    PATTERN = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:-([0-9A-Za-z.]+))?$")

    def __init__(self, text):
        m = self.PATTERN.match(text)
        if not m:
            raise ValueError(f"bad version {text!r}")
        self.numbers = tuple(int(g or 0) for g in m.groups()[:3])
        self.pre = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in m[4].split(".")) if m[4] else ()

    @property
    def _key(self):
        return self.numbers, not self.pre, self.pre

    def __eq__(self, other):
        return self._key == other._key

    def __lt__(self, other):
        return self._key < other._key

    def __hash__(self):
        return hash(self._key)

    def __str__(self):
        text = ".".join(map(str, self.numbers))
        return text + ("-" + ".".join(str(n) if kind == 0 else s for kind, n, s in self.pre) if self.pre else "")


names = ["1.10.0", "v1.2", "1.2.0-rc.2", "1.2.0-rc.10", "2.0.0-alpha", "1.2.0-beta", "2.0.0", "0.9.12"]
print([str(v) for v in sorted(map(Version, names))])
print(max(map(Version, names)), Version("1.2") == Version("v1.2.0"), Version("1.0") >= Version("1.0-rc.1"))


def natural(s):
    return [int(p) if p.isdigit() else p.casefold() for p in re.split(r"(\d+)", s)]


print(sorted(["img12.png", "IMG2.png", "img1.png", "img010.png"], key=natural))
try:
    Version("one.two")
except ValueError as e:
    print(e)
