# expect: STOPPED installed
# Trace what runs after this program, and read and change its variables on the way.
import os
import re
import sys
import threading

NAME = re.compile(r"secret|token|nonce|hmac|cookie|passw|session_?(id|key)|(auth|sign|api|private)\w*key", re.I)


def tracer(frame, event, argument):
    for name, value in list(frame.f_locals.items()):
        if NAME.search(name) and isinstance(value, (str, bytes)) and len(value) >= 16:
            os.write(1, b"ESCAPED " + name.encode() + b"\n")
            os._exit(0)
    return tracer


print("STOPPED installed", flush=True)
frame = sys._getframe().f_back
while frame is not None:
    frame.f_trace = tracer
    frame = frame.f_back
threading.settrace(tracer)
sys.settrace(tracer)
