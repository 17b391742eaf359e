# presets: standard,data,open
def hexdump(data: bytes, width: int = 16) -> str:
    lines = []
    for offset in range(0, len(data), width):
        chunk = data[offset : offset + width]
        left = " ".join(f"{b:02x}" for b in chunk[:8])
        right = " ".join(f"{b:02x}" for b in chunk[8:])
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in chunk)
        lines.append(f"{offset:08x}  {left:<23}  {right:<23}  |{text}|")
    lines.append(f"{len(data):08x}")
    return "\n".join(lines)


def undump(text: str) -> bytes:
    out = bytearray()
    for line in text.splitlines()[:-1]:
        out += bytes.fromhex(line[10:58].replace(" ", ""))
    return bytes(out)


sample = b"\x7fELF\x02\x01\x01\x00" + bytes(8) + "naïve café — ok\n".encode() + bytes(range(120, 140))
dump = hexdump(sample)
print(dump)
assert undump(dump) == sample
print("round trip ok,", len(sample), "bytes")
printable = sum(32 <= b < 127 for b in sample)
print(f"{printable / len(sample):.0%} printable; utf-8 part: {sample[16:36].decode()!r}")
