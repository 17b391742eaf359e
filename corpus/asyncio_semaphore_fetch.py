# presets: data,open
"""Pretend to fetch pages concurrently with a bounded number of workers."""
import asyncio
import random
import time


class FakeSite:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.running = self.peak = 0

    async def get(self, url):
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await asyncio.sleep(self.rng.uniform(0.001, 0.01))
            if url.endswith("7"):
                raise ConnectionError(f"{url} refused")
            return f"<html>{url}</html>"
        finally:
            self.running -= 1


async def fetch_all(urls, limit):
    site = FakeSite(3)
    gate = asyncio.Semaphore(limit)

    async def one(url, attempts=2):
        for attempt in range(attempts):
            async with gate:
                try:
                    return url, len(await site.get(url))
                except ConnectionError as e:
                    error = e
        return url, error

    results = await asyncio.gather(*(one(u) for u in urls))
    return results, site.peak


async def main():
    urls = [f"https://example.org/{i}" for i in range(20)]
    started = time.perf_counter()
    results, peak = await fetch_all(urls, limit=5)
    assert time.perf_counter() - started < 1.5
    good = [(u, n) for u, n in results if isinstance(n, int)]
    print(f"{len(good)} pages, {sum(n for _, n in good)} bytes, peak concurrency {peak}")
    for url, error in results:
        if isinstance(error, Exception):
            print("failed:", error)
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.005, done.set)
    await done.wait()
    print("event set:", done.is_set())


asyncio.run(main())
