# presets: standard,data,open
import random


def bubble(a):
    a = a[:]
    for i in range(len(a)):
        for j in range(len(a) - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


def merge(a):
    if len(a) < 2:
        return a
    mid = len(a) // 2
    left, right = merge(a[:mid]), merge(a[mid:])
    out = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out + left[i:] + right[j:]


def quick(a):
    if len(a) < 2:
        return a
    pivot = a[len(a) // 2]
    return quick([x for x in a if x < pivot]) + [x for x in a if x == pivot] + quick([x for x in a if x > pivot])


def heap(a):
    import heapq

    h = list(a)
    heapq.heapify(h)
    return [heapq.heappop(h) for _ in range(len(h))]


def insertion(a):
    out = []
    for x in a:
        i = len(out)
        while i and out[i - 1] > x:
            i -= 1
        out.insert(i, x)
    return out


random.seed(7)
data = [random.randint(-50, 50) for _ in range(200)]
expected = sorted(data)
for sorter in (bubble, merge, quick, heap, insertion):
    for case in (data, [], [1], expected, expected[::-1]):
        assert sorter(case) == sorted(case), sorter.__name__
    print(f"{sorter.__name__:<10} ok")
print(expected[:5], "...", expected[-5:])
