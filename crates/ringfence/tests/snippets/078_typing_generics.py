# expect: ok
from typing import (Callable, Dict, Generic, Iterable, List, NamedTuple, Optional, Protocol, TypedDict, TypeVar, Union,
                    get_type_hints, runtime_checkable)

T = TypeVar("T")


class Stack(Generic[T]):
    def __init__(self) -> None:
        self._items: List[T] = []

    def push(self, item: T) -> "Stack[T]":
        self._items.append(item)
        return self

    def pop(self) -> Optional[T]:
        return self._items.pop() if self._items else None


class Movie(TypedDict):
    title: str
    year: int


class City(NamedTuple):
    name: str
    population: int = 0


@runtime_checkable
class HasArea(Protocol):
    def area(self) -> float: ...


def apply(f: Callable[[T], T], values: Iterable[T]) -> List[T]:
    return [f(v) for v in values]


print(Stack[int]().push(1).push(2).pop(), apply(str.upper, ["a", "b"]))
print(get_type_hints(Movie), City("Oslo")._asdict(), isinstance(3, HasArea), Union[int, None], Dict[str, int])
