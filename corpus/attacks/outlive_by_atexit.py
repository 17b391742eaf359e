# expect: STOPPED left-behind or status=timeout
# Never come back from the interpreter's last call.
import atexit
import os
import time


def later():
    time.sleep(45)
    os.write(1, b"ESCAPED the end\n")


atexit.register(later)
print("STOPPED left-behind", flush=True)
