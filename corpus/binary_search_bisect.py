# presets: standard,data,open
from bisect import bisect, bisect_left, bisect_right, insort

grades = [60, 70, 80, 90]
for score in (33, 60, 75, 89.9, 90, 100):
    print(f"{score:>5}: {'FDCBA'[bisect(grades, score)]}")


def search(a, x):
    lo, hi = 0, len(a) - 1
    steps = 0
    while lo <= hi:
        steps += 1
        mid = (lo + hi) // 2
        if a[mid] == x:
            return mid, steps
        if a[mid] < x:
            lo = mid + 1
        else:
            hi = mid - 1
    return -1, steps


squares = [n * n for n in range(1000)]
print(search(squares, 361), search(squares, 362), search(squares, 998001))

scores = []
for value in [5, 3, 9, 3, 7, 1]:
    insort(scores, value)
    print(scores)
print("count of 3:", bisect_right(scores, 3) - bisect_left(scores, 3))


def lower_bound(predicate, lo, hi):
    """Smallest n in [lo, hi) for which predicate is true."""
    while lo < hi:
        mid = (lo + hi) // 2
        if predicate(mid):
            hi = mid
        else:
            lo = mid + 1
    return lo


print("cube root of 10^12 rounded up:", lower_bound(lambda n: n**3 >= 10**12, 0, 10**6))
