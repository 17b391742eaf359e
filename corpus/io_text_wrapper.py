# presets: data,open
import io
import os

raw = io.BytesIO()
wrapper = io.TextIOWrapper(raw, encoding="utf-16-le", newline="\r\n")
wrapper.write("första\nandra\n")
wrapper.flush()
print(raw.getvalue()[:8], len(raw.getvalue()))

with open("latin.txt", "wb") as f:
    f.write("naïve café £5\n".encode("latin-1"))
with open("latin.txt", encoding="latin-1") as f:
    print(f.read().strip())
try:
    open("latin.txt", encoding="utf-8").read()
except UnicodeDecodeError as e:
    print("cannot decode byte", hex(e.object[e.start]), "at", e.start)
print(open("latin.txt", encoding="utf-8", errors="replace").read().strip())

with open("records.bin", "w+b", buffering=0) as f:
    for i in range(5):
        f.write(i.to_bytes(4, "little"))
    f.seek(8)
    print(int.from_bytes(f.read(4), "little"), f.tell(), f.seek(0, os.SEEK_END))
    f.truncate(12)
print(os.path.getsize("records.bin"))

with open("lines.txt", "w") as f:
    f.writelines(f"line {i}\n" for i in range(1, 6))
with open("lines.txt") as f:
    next(f)
    print(f.readline().strip(), [l.strip() for l in f.readlines()[-2:]])
reader = io.BufferedReader(io.BytesIO(b"abcdefgh"), buffer_size=4)
print(reader.peek(2)[:2], reader.read(3), reader.read1(2))
try:
    open("lines.txt", "x")
except FileExistsError as e:
    print(type(e).__name__, e.filename)
try:
    open("missing.txt")
except FileNotFoundError as e:
    print(e.strerror, e.filename)
