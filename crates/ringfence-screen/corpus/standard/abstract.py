from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Mapping
from typing import Any, Callable, ClassVar, Generic, NamedTuple, Protocol, TypedDict, TypeVar

K = TypeVar("K")


class Shape(ABC):
    count: ClassVar[int] = 0

    def __new__(cls, *args, **kwargs):
        cls.count += 1
        return super().__new__(cls)

    @abstractmethod
    def area(self) -> float: ...


class Square(Shape):
    __slots__ = ("side",)

    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side ** 2

    def __call__(self, factor=1):
        return self.area() * factor

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return False

    def __getitem__(self, index):
        return [self.side] * 2 if isinstance(index, slice) else self.side

    def __bool__(self):
        return self.side > 0


class Frozen(Mapping, Generic[K]):
    def __init__(self, **items: Any):
        self._items = dict(items)

    def __getitem__(self, key):
        return self._items[key]

    def __iter__(self):
        return iter(self._items)

    def __len__(self):
        return len(self._items)

    def __getattr__(self, name):
        try:
            return self._items[name]
        except KeyError:
            raise AttributeError(name) from None


class Row(NamedTuple):
    name: str
    value: int = 0


class Options(TypedDict, total=False):
    verbose: bool


class Handler(Protocol):
    def __call__(self, event: str) -> None: ...


Pair = namedtuple("Pair", "left right", defaults=[None])
handlers: dict[str, Callable[[str], None]] = {"print": print, "upper": lambda s: print(s.upper())}
queue = deque([1, 2, 3], maxlen=2)
groups = defaultdict(list)
for word in "the quick brown fox".split():
    groups[len(word)].append(word)
with Square(3) as square:
    print(square(2), square[1:], bool(square), Square.count, Square.__name__)
print(Frozen(a=1).a, Row("x"), Pair(1), queue, dict(groups), OrderedDict(a=1), Shape.__doc__)
handlers["upper"]("done")
