# expect: STOPPED EPERM|EACCES|ENOSYS
# needs: x86_64
# Execute a program that exists in memory alone.
import errno
import os
import struct

# mov edi, 1; lea rsi, [rip + 20]; mov edx, 26; mov eax, 1 (write); syscall; xor edi, edi; mov al, 60 (exit); syscall
CODE = bytes.fromhex("bf01000000488d3515000000ba1a000000b8010000000f0531ffb03c0f05") + bytes(3)
TEXT = b"ESCAPED from a memory file\n"


def elf():
    code = CODE + TEXT
    base, size = 0x400000, 120 + len(code)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096) + code


def attack():
    file = os.memfd_create("program")
    os.write(file, elf())
    os.execve(file, ["program"], {})


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
