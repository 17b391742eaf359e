# expect: STOPPED harmless
# A timer signal every 50 microseconds, for half a second.
import signal
import time

seen = 0


def handler(number, frame):
    global seen
    seen += 1


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 50e-6, 50e-6)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    pass
signal.setitimer(signal.ITIMER_REAL, 0)
print("STOPPED harmless" if seen else "STOPPED no-signal")
