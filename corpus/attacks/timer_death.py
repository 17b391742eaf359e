# expect: status=killed or status=error or status=timeout
# Die by a timer's signal instead of ending.
import signal

signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.setitimer(signal.ITIMER_REAL, 0.05)
while True:
    signal.pause()
