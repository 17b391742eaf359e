# expect: ok
import ctypes
import ctypes.util
import os

libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
libc.strlen.argtypes = [ctypes.c_char_p]
libc.strlen.restype = ctypes.c_size_t
print("strlen:", libc.strlen(b"hello world"))
print("abs:", libc.abs(-5), "toupper:", chr(libc.toupper(ord("q"))))
print("same pid:", libc.getpid() == os.getpid())

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
values = (ctypes.c_int * 6)(5, 1, 7, 33, 99, 2)
libc.qsort(values, len(values), ctypes.sizeof(ctypes.c_int), COMPARE(lambda a, b: a[0] - b[0]))
print(list(values))

libm = ctypes.CDLL(None)
print("atoi:", libm.atoi(b"42abc"))
