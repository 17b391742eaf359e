# presets: standard,data,open
from enum import Enum, Flag, IntFlag, unique


class Perm(Flag):
    NONE = 0
    READ = 1
    WRITE = 2
    EXEC = 4
    ALL = READ | WRITE | EXEC


class Unix(IntFlag):
    R = 4
    W = 2
    X = 1


@unique
class Role(Enum):
    GUEST = Perm.READ
    EDITOR = Perm.READ | Perm.WRITE
    ADMIN = Perm.ALL

    def can(self, perm):
        return perm in self.value


for role in Role:
    print(role.name, [p.name for p in (Perm.READ, Perm.WRITE, Perm.EXEC) if role.can(p)])
print(Role.ADMIN.value & ~Perm.WRITE == Perm.READ | Perm.EXEC, bool(Perm.NONE))


def octal(text):
    digits = []
    for i in range(0, 9, 3):
        digits.append(sum(flag for flag, ch in zip((Unix.R, Unix.W, Unix.X), text[i : i + 3]) if ch != "-"))
    return "".join(str(int(d)) for d in digits)


for mode in ("rwxr-xr-x", "rw-r-----", "---------"):
    print(mode, octal(mode))
try:
    @unique
    class Bad(Enum):
        A = 1
        B = 1
except ValueError as e:
    print("ValueError:", str(e).split(":")[0])
