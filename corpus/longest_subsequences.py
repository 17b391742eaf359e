# presets: standard,data,open
from bisect import bisect_left


def lcs(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    out, i, j = [], len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            out.append(a[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1][j] >= table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return "".join(reversed(out))


def lis(seq):
    tails, index, previous = [], [], {}
    for i, x in enumerate(seq):
        k = bisect_left(tails, x)
        tails[k : k + 1] = [x]
        index[k : k + 1] = [i]
        previous[i] = index[k - 1] if k else None
    out, i = [], index[-1] if index else None
    while i is not None:
        out.append(seq[i])
        i = previous[i]
    return out[::-1]


def max_subarray(nums):
    best = cur = nums[0]
    start = begin = end = 0
    for i, n in enumerate(nums[1:], 1):
        if cur < 0:
            cur, start = n, i
        else:
            cur += n
        if cur > best:
            best, begin, end = cur, start, i
    return best, nums[begin : end + 1]


print(lcs("AGGTAB", "GXTXAYB"), lcs("nematode knowledge", "empty bottle"))
print(lis([10, 9, 2, 5, 3, 7, 101, 18, 20, 4]), lis([]))
print(max_subarray([-2, 1, -3, 4, -1, 2, 1, -5, 4]))


def longest_unique(s):
    last, start, best = {}, 0, ""
    for i, ch in enumerate(s):
        start = max(start, last.get(ch, -1) + 1)
        last[ch] = i
        best = max(best, s[start : i + 1], key=len)
    return best


print([longest_unique(s) for s in ("abcabcbb", "bbbb", "pwwkew", "")])
