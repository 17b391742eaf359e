# expect: ok
import sys
import time

total = 10
for i in range(1, total + 1):
    time.sleep(0.02)
    bar = "#" * i + "-" * (total - i)
    sys.stdout.write(f"\r[{bar}] {i * 100 // total:3d}%")
    sys.stdout.flush()
print("\nDone")

start = time.monotonic()
time.sleep(0.1)
elapsed = time.monotonic() - start
print("slept at least 0.1 s:", elapsed >= 0.1)
print(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(0)), time.time() > 1.6e9)
