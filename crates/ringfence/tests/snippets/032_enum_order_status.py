# expect: ok
from enum import Enum, Flag, IntEnum, auto, unique


@unique
class Status(Enum):
    NEW = "new"
    PAID = "paid"
    SHIPPED = "shipped"

    @property
    def next(self):
        members = list(Status)
        return members[(members.index(self) + 1) % len(members)]


class Priority(IntEnum):
    LOW = 1
    HIGH = 10


class Permission(Flag):
    READ = auto()
    WRITE = auto()
    EXECUTE = auto()


print(Status("paid"), Status["NEW"].next.value)
print(sorted([Priority.HIGH, Priority.LOW])[0].name)
mode = Permission.READ | Permission.WRITE
print(Permission.WRITE in mode, Permission.EXECUTE in mode)
print({s.name: s.value for s in Status}, len(Status.__members__))
