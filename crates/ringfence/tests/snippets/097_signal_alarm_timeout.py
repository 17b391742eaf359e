# expect: ok
import os
import signal
import time
from contextlib import contextmanager


class Timeout(Exception):
    pass


@contextmanager
def time_limit(seconds):
    def handler(signum, frame):
        raise Timeout(f"took longer than {seconds} s")

    previous = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


with time_limit(1):
    print("fast enough")
try:
    with time_limit(0.1):
        while True:
            time.sleep(0.01)
except Timeout as e:
    print("Timeout:", e)

signal.signal(signal.SIGUSR1, lambda signum, frame: print("received", signal.Signals(signum).name))
os.kill(os.getpid(), signal.SIGUSR1)
signal.alarm(60)
print("seconds left on the alarm:", signal.alarm(0))
