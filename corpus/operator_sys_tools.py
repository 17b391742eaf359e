# presets: data,open
import operator
import sys
from functools import reduce
from operator import attrgetter, itemgetter, methodcaller

rows = [{"n": 3, "s": "c"}, {"n": 1, "s": "a"}, {"n": 2, "s": "b"}]
print(sorted(rows, key=itemgetter("n")))
print(list(map(methodcaller("upper"), "xyz")), reduce(operator.mul, range(1, 6)))
print(operator.itemgetter(1, 3)([10, 20, 30, 40]), operator.contains([1, 2], 2))
print(max([1 + 2j, 3 + 0j], key=attrgetter("real")))

print(sys.byteorder, sys.maxsize == 2**63 - 1, sys.version_info >= (3, 9))
print(sys.float_info.dig, sys.getrecursionlimit() >= 100, len(sys.argv))
sys.stdout.write("written directly\n")


def depth(n=0):
    try:
        return depth(n + 1)
    except RecursionError:
        return n


old = sys.getrecursionlimit()
sys.setrecursionlimit(300)
print("recursion stops before 300:", 100 < depth() < 300)
sys.setrecursionlimit(old)
a = sys.intern("some string")
print(a is sys.intern("some " + "string"), sys.getsizeof([]) < sys.getsizeof([1, 2, 3]))
try:
    sys.exit("leaving")
except SystemExit as e:
    print("exit:", e.code)
