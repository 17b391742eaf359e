# expect: STOPPED EPERM
# Map memory that grows downwards by itself.
import ctypes
import errno

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
place = libc.mmap(None, ctypes.c_size_t(1 << 20), 3, 0x20 | 0x02 | 0x100, -1, 0)
if place in (None, 2**64 - 1):
    print("STOPPED", errno.errorcode.get(ctypes.get_errno()))
else:
    print("ESCAPED a mapping that grows")
