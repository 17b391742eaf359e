# expect: STOPPED EPERM or status=memory
# Fill 1 GB of memory that is shared with nobody, which no limit on data counts.
import errno
import mmap


def attack():
    memory = mmap.mmap(-1, 1 << 30)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    return "1 GB of shared memory"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
