# presets: standard,data,open
from __future__ import annotations

from typing import Callable, Dict, Generic, Iterable, List, Optional, Protocol, Tuple, TypeVar, Union

T = TypeVar("T")
K = TypeVar("K")


class Shape(Protocol):
    def area(self) -> float: ...


class Square:
    def __init__(self, side: float) -> None:
        self.side = side

    def area(self) -> float:
        return self.side**2


class Circle:
    def __init__(self, r: float) -> None:
        self.r = r

    def area(self) -> float:
        return 3.14159 * self.r**2


class Stack(Generic[T]):
    def __init__(self) -> None:
        self._items: List[T] = []

    def push(self, item: T) -> Stack[T]:
        self._items.append(item)
        return self

    def pop(self) -> Optional[T]:
        return self._items.pop() if self._items else None

    def __len__(self) -> int:
        return len(self._items)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> Dict[K, List[T]]:
    result: Dict[K, List[T]] = {}
    for item in items:
        result.setdefault(key(item), []).append(item)
    return result


def describe(value: Union[int, str, None]) -> Tuple[str, str]:
    return type(value).__name__, str(value)


def total(shapes: Iterable[Shape]) -> float:
    return sum(s.area() for s in shapes)


stack: Stack[int] = Stack()
stack.push(1).push(2).push(3)
print(stack.pop(), stack.pop(), len(stack), stack.pop(), stack.pop())
print(group_by(["kiwi", "fig", "plum", "date", "pea"], len))
print(f"{total([Square(2), Circle(1), Square(0.5)]):.4f}")
print([describe(v) for v in (1, "x", None)])
