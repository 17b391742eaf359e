# presets: standard,data,open
def make_counter(start=0):
    count = start

    def increment(by=1):
        nonlocal count
        count += by
        return count

    def reset():
        nonlocal count
        count = start

    return increment, reset


def make_multipliers():
    late = [lambda x: x * i for i in range(4)]
    bound = [lambda x, i=i: x * i for i in range(4)]
    return [f(10) for f in late], [f(10) for f in bound]


def memoize(f):
    cache = {}

    def wrapped(*args):
        if args not in cache:
            cache[args] = f(*args)
        return cache[args]

    wrapped.cache = cache
    return wrapped


@memoize
def paths(r, c):
    return 1 if r == 0 or c == 0 else paths(r - 1, c) + paths(r, c - 1)


inc, reset = make_counter(10)
print(inc(), inc(5), inc(), end=" ")
reset()
print(inc())
print(make_multipliers())
print(paths(16, 16), len(paths.cache))


def appender(item, bucket=[]):
    bucket.append(item)
    return bucket


print(appender(1), appender(2), appender(3, []))


def signature(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a, b, c, rest, d, e, sorted(more.items())


print(signature(1, d=4), signature(1, 2, 3, 4, 5, d=6, z=7, y=8))
x = "global"


def outer():
    x = "outer"

    def inner():
        return x

    return inner(), [x for x in range(3)], x


print(outer(), x)
