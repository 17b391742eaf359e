# presets: standard,data,open
"""Generators used as coroutines: send values in, get results out."""


def coroutine(func):
    def start(*args, **kwargs):
        gen = func(*args, **kwargs)
        next(gen)
        return gen

    return start


@coroutine
def averager():
    total, count, average = 0.0, 0, None
    while True:
        value = yield average
        if value is None:
            break
        total += value
        count += 1
        average = total / count
    return (count, average)


@coroutine
def grep(pattern, target):
    while True:
        line = yield
        if pattern in line:
            target.send(line)


@coroutine
def printer(prefix):
    try:
        while True:
            print(prefix, (yield))
    except GeneratorExit:
        print(prefix, "closing")


avg = averager()
print([avg.send(x) for x in (10, 20, 60)])
try:
    avg.send(None)
except StopIteration as stop:
    print("returned", stop.value)

out = printer(">>")
g = grep("py", out)
for line in ["python", "ruby", "numpy", "c++"]:
    g.send(line)
g.close()
out.close()


def delegating():
    result = yield from inner()
    yield f"inner returned {result}"


def inner():
    try:
        yield 1
        yield 2
    except ValueError as e:
        yield f"caught {e}"
    return "done"


d = delegating()
print(next(d), d.throw(ValueError("boom")), next(d), next(d, "exhausted"))
