import functools


async def numbers(n):
    for i in range(n):
        yield i


async def collect(n):
    return [i async for i in numbers(n) if i % 2]


async def main():
    result = await collect(5)
    async with Guard() as guard:
        print(result, guard)


class Guard:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return None


def retry(times=3):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            last = None
            for attempt in range(times):
                try:
                    return function(*args, **kwargs)
                except (ValueError, KeyError) as error:
                    last = error
            raise RuntimeError(f"{function.__name__} failed {times} times") from last
        return inner
    return decorate


@retry(times=2)
def fragile(x):
    if x < 0:
        raise ValueError(x)
    return x


coroutine = main()
coroutine.close()
try:
    fragile(-1)
except RuntimeError as e:
    print(e, repr(e.__cause__))
print(fragile(1), __name__ == "__main__")
if __name__ == "__main__":
    exit(0)
