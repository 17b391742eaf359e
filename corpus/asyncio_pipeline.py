# presets: data,open
import asyncio


async def producer(queue, n):
    for i in range(n):
        await asyncio.sleep(0.001)
        await queue.put(i)
    for _ in range(3):
        await queue.put(None)


async def worker(name, queue, results):
    handled = 0
    while (item := await queue.get()) is not None:
        await asyncio.sleep(0)
        results.append(item * item)
        handled += 1
    return handled


async def main():
    queue = asyncio.Queue(maxsize=4)
    results = []
    _, *counts = await asyncio.gather(producer(queue, 20), *(worker(i, queue, results) for i in range(3)))
    print("handled:", sum(counts), "sum:", sum(results), "sorted:", sorted(results)[:5])


async def slow():
    await asyncio.sleep(30)


async def errors():
    try:
        await asyncio.wait_for(slow(), timeout=0.01)
    except asyncio.TimeoutError:
        print("timed out")

    async def bad():
        raise ValueError("boom")

    outcome = await asyncio.gather(bad(), asyncio.sleep(0, "fine"), return_exceptions=True)
    print([repr(o) for o in outcome])
    task = asyncio.create_task(slow())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled:", task.cancelled())


async def ticker(n):
    for i in range(n):
        yield i
        await asyncio.sleep(0)


async def streams():
    print([x async for x in ticker(5) if x % 2 == 0])
    lock, log = asyncio.Lock(), []
    async def critical(name):
        async with lock:
            log.append(f"{name} in")
            await asyncio.sleep(0.001)
            log.append(f"{name} out")
    await asyncio.gather(*(critical(c) for c in "abc"))
    print(log)


asyncio.run(main())
asyncio.run(errors())
asyncio.run(streams())
