# presets: standard,data,open
# A miniature event loop: async functions without asyncio.
import heapq
import itertools


class Sleep:
    def __init__(self, ticks):
        self.ticks = ticks

    def __await__(self):
        yield self.ticks
        return f"slept {self.ticks}"


class Loop:
    def __init__(self):
        self.now = 0
        self.queue = []
        self.order = itertools.count()
        self.results = {}

    def spawn(self, name, coro, at=0):
        heapq.heappush(self.queue, (self.now + at, next(self.order), name, coro))

    def run(self):
        while self.queue:
            self.now, _, name, coro = heapq.heappop(self.queue)
            try:
                delay = coro.send(None)
            except StopIteration as stop:
                self.results[name] = stop.value
                print(f"[{self.now:>3}] {name} finished: {stop.value}")
            else:
                self.spawn(name, coro, at=delay)


async def worker(name, delays):
    total = 0
    for d in delays:
        note = await Sleep(d)
        total += d
        print(f"[{loop.now:>3}] {name} {note}")
    return total


async def parent():
    first = await worker("child", [5, 1])
    await Sleep(2)
    return first * 10


loop = Loop()
loop.spawn("a", worker("a", [3, 3, 3]))
loop.spawn("b", worker("b", [4, 4]))
loop.spawn("p", parent())
loop.run()
print(sorted(loop.results.items()))
