# expect: STOPPED closed or status=failed or status=killed
# Close every descriptor above 2, the interpreter's own among them.
import os

os.closerange(3, 65536)
print("STOPPED closed", flush=True)
