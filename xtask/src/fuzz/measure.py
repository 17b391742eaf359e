"""Starts a command some times and prints what each took: CPU time of it and all its children, wall time, exit code, stderr.

Arguments: times, seconds after which one is killed, then the command.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

for _ in range(int(sys.argv[1])):
    with tempfile.TemporaryFile() as stderr:
        began = time.monotonic()
        child = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
        signal.signal(signal.SIGALRM, lambda *_: child.kill())
        signal.alarm(int(sys.argv[2]))
        _, status, used = os.wait4(child.pid, 0)
        signal.alarm(0)
        stderr.seek(0)
        print(json.dumps({
            "cpu_ms": (used.ru_utime + used.ru_stime) * 1000,
            "wall_ms": (time.monotonic() - began) * 1000,
            "exit": os.waitstatus_to_exitcode(status),
            "stderr": stderr.read(2000).decode("utf-8", "replace"),
        }))
