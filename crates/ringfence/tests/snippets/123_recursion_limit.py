# expect: ok
import sys
import threading

sys.setrecursionlimit(20000)


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def hanoi(n, a="A", b="B", c="C"):
    return [] if n == 0 else hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c)


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))


print(depth(5000), len(hanoi(10)), ackermann(2, 6), sys.getrecursionlimit())

# A thread with a larger stack, as is usual in programming contests
threading.stack_size(64 * 1024 * 1024)
thread = threading.Thread(target=lambda: print(depth(15000)))
thread.start()
thread.join()
