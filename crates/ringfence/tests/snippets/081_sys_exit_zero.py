# expect: ok
import atexit
import sys


@atexit.register
def goodbye():
    print("cleaning up")


def run(steps):
    for i in range(1, steps + 1):
        print("step", i)
        if i == 3:
            print("nothing left to do")
            sys.exit(0)


try:
    run(2)
    sys.exit("never seen")
except SystemExit as e:
    print("caught exit with", repr(e.code))

run(10)
print("not reached")
