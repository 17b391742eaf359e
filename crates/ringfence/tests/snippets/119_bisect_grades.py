# expect: ok
import bisect


def grade(score, breakpoints=(60, 70, 80, 90), grades="FDCBA"):
    return grades[bisect.bisect(breakpoints, score)]


print([(s, grade(s)) for s in (33, 60, 77, 89, 90, 100)])

timeline = []
for year, event in [(1969, "Moon landing"), (1989, "World Wide Web"), (1957, "Sputnik"), (1977, "Voyager")]:
    bisect.insort(timeline, (year, event))
print(timeline)
i = bisect.bisect_left(timeline, (1970,))
print("first after 1970:", timeline[i][1])


def binary_search(values, x):
    i = bisect.bisect_left(values, x)
    return i if i < len(values) and values[i] == x else -1


print(binary_search([2, 3, 5, 7, 11], 7), binary_search([2, 3, 5, 7, 11], 6))
