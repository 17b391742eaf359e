# expect: ok
import asyncio


async def worker(name, queue, results):
    while True:
        n = await queue.get()
        await asyncio.sleep(0.001)
        results.append((n, n * n))
        queue.task_done()


async def main():
    queue = asyncio.Queue()
    results = []
    for n in range(10):
        queue.put_nowait(n)
    tasks = [asyncio.create_task(worker(f"w{i}", queue, results)) for i in range(3)]
    await queue.join()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    loop = asyncio.get_running_loop()
    total = await loop.run_in_executor(None, sum, [square for _, square in results])
    print(sorted(results))
    print("sum of squares:", total)


if __name__ == "__main__":
    asyncio.run(main())
