# expect: ok
import ctypes


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int32), ("y", ctypes.c_int32)]


class Header(ctypes.LittleEndianStructure):
    _pack_ = 1
    _fields_ = [("kind", ctypes.c_uint8), ("length", ctypes.c_uint32), ("origin", Point)]


for name in ("c_char", "c_short", "c_int", "c_longlong", "c_double", "c_void_p"):
    print(name, ctypes.sizeof(getattr(ctypes, name)))
print("Header:", ctypes.sizeof(Header), "bytes, length at", Header.length.offset)

header = Header(1, 500, Point(-3, 4))
raw = bytes(header)
print(raw.hex(), Header.from_buffer_copy(raw).origin.x)
numbers = (ctypes.c_int * 5)(5, 3, 1)
print(list(numbers), ctypes.c_uint8(300).value)
