# presets: standard,data,open
from collections import OrderedDict
from typing import Any, Hashable, Optional


class LRUCache:
    """Least-recently-used cache with hit statistics."""

    def __init__(self, capacity: int):
        if capacity <= 0:
            raise ValueError("capacity must be positive")
        self.capacity = capacity
        self._data: "OrderedDict[Hashable, Any]" = OrderedDict()
        self.hits = self.misses = 0

    def get(self, key: Hashable) -> Optional[Any]:
        if key in self._data:
            self.hits += 1
            self._data.move_to_end(key)
            return self._data[key]
        self.misses += 1
        return None

    def put(self, key: Hashable, value: Any) -> None:
        self._data[key] = value
        self._data.move_to_end(key)
        while len(self._data) > self.capacity:
            old, _ = self._data.popitem(last=False)
            print(f"  evicted {old!r}")

    def __contains__(self, key):
        return key in self._data

    def __repr__(self):
        return f"LRUCache({list(self._data.items())})"


def main():
    cache = LRUCache(2)
    cache.put(1, "one")
    cache.put(2, "two")
    assert cache.get(1) == "one"
    cache.put(3, "three")
    assert cache.get(2) is None
    cache.put(4, "four")
    assert 1 not in cache and 3 in cache
    print(cache)
    print(f"hits={cache.hits} misses={cache.misses} ratio={cache.hits / (cache.hits + cache.misses):.0%}")
    try:
        LRUCache(0)
    except ValueError as exc:
        print("ValueError:", exc)


if __name__ == "__main__":
    main()
