# presets: standard,data,open
"""A log-processing pipeline built out of generators."""
import itertools

LINES = [f"{i % 24:02d}:{(i * 7) % 60:02d} {'ERROR' if i % 11 == 0 else 'WARN' if i % 4 == 0 else 'INFO'} job={i % 5} ms={(i * 37) % 400}" for i in range(1, 121)]


def parse(lines):
    for line in lines:
        clock, level, job, ms = line.split()
        yield {"clock": clock, "level": level, "job": int(job[4:]), "ms": int(ms[3:])}


def only(records, **wanted):
    for record in records:
        if all(record[k] == v for k, v in wanted.items()):
            yield record


def running_mean(values):
    total = 0
    for n, value in enumerate(values, 1):
        total += value
        yield total / n


def chunks(iterable, size):
    it = iter(iterable)
    while chunk := list(itertools.islice(it, size)):
        yield chunk


errors = only(parse(LINES), level="ERROR")
for record in itertools.islice(errors, 4):
    print(record)

means = list(running_mean(r["ms"] for r in only(parse(LINES), job=3)))
print("running mean:", [round(m, 1) for m in means[:6]], "...", round(means[-1], 2))

for batch in itertools.islice(chunks(parse(LINES), 25), 3):
    print(len(batch), batch[0]["clock"], "to", batch[-1]["clock"], "slowest", max(r["ms"] for r in batch))
print("levels:", {k: len(list(g)) for k, g in itertools.groupby(sorted(r["level"] for r in parse(LINES)))})
