# presets: standard,data,open
class Countdown:
    def __init__(self, start):
        self.start = start

    def __iter__(self):
        n = self.start
        while n > 0:
            yield n
            n -= 1

    def __reversed__(self):
        return iter(range(1, self.start + 1))

    def __len__(self):
        return self.start


class Peekable:
    _END = object()

    def __init__(self, iterable):
        self._it = iter(iterable)
        self._next = next(self._it, self._END)

    def __iter__(self):
        return self

    def __next__(self):
        if self._next is self._END:
            raise StopIteration
        value, self._next = self._next, next(self._it, self._END)
        return value

    def peek(self, default=None):
        return default if self._next is self._END else self._next

    def __bool__(self):
        return self._next is not self._END


class Window:
    """A sequence by __getitem__ alone: iteration and `in` come for free."""

    def __init__(self, data, size):
        self.data, self.size = data, size

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self.data) - self.size + 1))]
        if i > len(self.data) - self.size:
            raise IndexError(i)
        return self.data[i : i + self.size]


print(list(Countdown(5)), list(reversed(Countdown(3))), len(Countdown(9)), sum(Countdown(100)))
p = Peekable("aaabccd")
runs = []
while p:
    ch, n = next(p), 1
    while p.peek() == ch:
        next(p)
        n += 1
    runs.append((ch, n))
print(runs, p.peek("empty"))
w = Window("abcdef", 3)
print(list(w), "cde" in w, w[1:3], max(w))
first, *middle, last = Countdown(5)
print(first, middle, last)
print(list(iter(iter([3, 1, 4, 0, 5]).__next__, 0)))
