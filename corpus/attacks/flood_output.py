# expect: STOPPED drained or status=killed or status=timeout
# Write 256 MB to stderr. Who runs this looks at how much was kept.
import os

line = b"x" * 4095 + b"\n"
for _ in range(65536):
    os.write(2, line)
print("STOPPED drained")
