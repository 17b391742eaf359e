# expect: status=killed
# needs: x86_64
# Enter the kernel as a 32-bit program: the numbers there mean other calls.
import ctypes
import errno
import mmap
import os

# push rbx; mov eax, 20 (getpid of i386); int 0x80; pop rbx; ret
CODE = bytes.fromhex("53b814000000cd805bc3")


def attack():
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return f"getpid by int 0x80 says {result}"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
