# expect: STOPPED EACCES|EPERM|ENOENT|ESRCH
# Read the maps and the memory of the first process and of the parent.
import errno
import os


def attack():
    last = FileNotFoundError(errno.ENOENT, "no other process")
    for pid in {1, os.getppid()} - {0, os.getpid()}:
        try:
            with open(f"/proc/{pid}/maps") as file:
                start = int(file.readline().split("-")[0], 16)
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(start)
                return f"{len(memory.read(16))} bytes of process {pid}"
        except OSError as error:
            last = error
    raise last


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
