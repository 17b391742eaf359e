# expect: STOPPED EPERM
# needs: x86_64
# Make a process by vfork, in machine code: its child must not touch the stack.
import ctypes
import errno
import mmap
import os

# mov eax, 58 (vfork); syscall; test eax, eax; jnz end; xor edi, edi; mov eax, 60 (exit); syscall; end: ret
CODE = bytes.fromhex("b83a0000000f0585c0750931ffb83c0000000f05c3")


def attack():
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    result = call()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    os.waitpid(result, 0)
    return "a child by vfork"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
