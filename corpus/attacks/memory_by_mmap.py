# expect: STOPPED ENOMEM or status=memory
# Fill 1 GB of memory by mmap, past the interpreter's allocator.
import errno
import mmap


def attack():
    memory = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, len(memory), 4096):
        memory[page] = 1
    return f"{len(memory) >> 20} MiB"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
