# expect: ok
import asyncio


async def fetch(name, delay):
    await asyncio.sleep(delay)
    if name == "broken":
        raise ValueError(f"no data for {name}")
    return f"{name} done"


async def main():
    jobs = [fetch("users", 0.05), fetch("orders", 0.02), fetch("broken", 0.01)]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    for result in results:
        print("failed:" if isinstance(result, Exception) else "ok:", result)
    try:
        await asyncio.wait_for(fetch("slow", 5), timeout=0.05)
    except asyncio.TimeoutError:
        print("slow request timed out")


asyncio.run(main())
