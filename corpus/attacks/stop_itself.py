# expect: STOPPED ignored or status=timeout
# Stop itself and never go on; as a namespace's first process it cannot.
import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)
print("STOPPED ignored")
