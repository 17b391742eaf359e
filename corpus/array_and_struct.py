# presets: standard,data,open
import struct
from array import array
from io import BytesIO

samples = array("h", [int(1000 * ((i % 20) - 10) / 10) for i in range(40)])
print(samples.typecode, samples.itemsize, len(samples), min(samples), max(samples))


def write_wav(samples, rate=8000):
    body = struct.pack(f"<{len(samples)}h", *samples)
    out = BytesIO()
    out.write(b"RIFF" + struct.pack("<I", 36 + len(body)) + b"WAVE")
    out.write(b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16))
    out.write(b"data" + struct.pack("<I", len(body)) + body)
    return out.getvalue()


def read_chunks(blob):
    stream = BytesIO(blob)
    riff, size, kind = struct.unpack("<4sI4s", stream.read(12))
    assert (riff, kind) == (b"RIFF", b"WAVE") and size == len(blob) - 8
    while header := stream.read(8):
        name, length = struct.unpack("<4sI", header)
        yield name.decode(), stream.read(length)


blob = write_wav(samples)
print(len(blob), "bytes, starts with", blob[:4])
for name, body in read_chunks(blob):
    print(f"{name!r}: {len(body)} bytes")
    if name == "fmt ":
        print("  ", struct.unpack("<HHIIHH", body))
    if name == "data":
        again = array("h", struct.unpack(f"<{len(body) // 2}h", body))
        print("   equal:", again == samples)
view = memoryview(bytearray(b"abcdef"))
view[1:3] = b"XY"
print(bytes(view), view[::2].tolist())
