# expect: ok
def read_lines(text):
    for line in text.splitlines():
        yield line.strip()


def numbers(lines):
    for line in lines:
        if line and not line.startswith("#"):
            yield from map(float, line.split(","))


def running_average():
    total, count, average = 0.0, 0, None
    while True:
        value = yield average
        total += value
        count += 1
        average = total / count


def primes():
    found = []
    n = 2
    while True:
        if all(n % p for p in found):
            found.append(n)
            yield n
        n += 1


text = "# data\n1,2,3\n\n4.5\n"
averager = running_average()
next(averager)
print([round(averager.send(x), 2) for x in numbers(read_lines(text))])
averager.close()
print([p for p, _ in zip(primes(), range(12))])
print(sum(x * x for x in range(1000)), next((x for x in range(10) if x > 20), "none"))
