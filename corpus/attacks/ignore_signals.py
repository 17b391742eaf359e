# expect: status=timeout
# Ignore every signal that can be ignored, block the rest, and sleep past any deadline.
import signal
import time

for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
time.sleep(3600)
print("ESCAPED the deadline")
