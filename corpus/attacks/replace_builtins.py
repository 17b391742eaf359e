# expect: STOPPED replaced
# Replace what the interpreter around it may call when this program has ended.
import builtins
import os
import sys

print("STOPPED replaced", flush=True)


def lie(*args, **kwargs):
    os.write(2, b"called\n")
    raise SystemExit(99)


for name in ("len", "repr", "str", "print", "isinstance", "open", "bytes"):
    vars(builtins)[name] = lie
os._exit, os.close = lie, lie
sys.exit = lie
