# expect: ok
import struct

WIDTH, HEIGHT = 16, 8
row_size = (WIDTH * 3 + 3) // 4 * 4
pixels = bytearray()
for y in range(HEIGHT):
    row = b"".join(struct.pack("BBB", x * 16, y * 32, 128) for x in range(WIDTH))
    pixels += row.ljust(row_size, b"\0")

header = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
info = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
with open("gradient.bmp", "wb") as f:
    f.write(header + info + pixels)

with open("gradient.bmp", "rb") as f:
    magic, size, _, _, offset = struct.unpack("<2sIHHI", f.read(14))
    _, width, height = struct.unpack("<Iii", f.read(12))
print(magic, size, offset, f"{width}x{height}", struct.calcsize("<IiiHHIIiiII"))
print(struct.pack(">d", 1.5).hex(), struct.unpack("<H", b"\x01\x02")[0], (258).to_bytes(2, "big"))
