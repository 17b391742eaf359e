# expect: STOPPED left-behind or status=timeout
# Leave a thread behind that speaks after 45 seconds.
import os
import threading
import time


def later():
    time.sleep(45)
    os.write(1, b"ESCAPED the end\n")


threading.Thread(target=later).start()
print("STOPPED left-behind", flush=True)
