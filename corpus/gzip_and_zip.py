# presets: data,open
import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib

text = ("The rain in Spain stays mainly in the plain. " * 200).encode()

with gzip.open("rain.txt.gz", "wb") as f:
    f.write(text)
with gzip.open("rain.txt.gz", "rt", encoding="utf-8") as f:
    print(f.read(44))

for name, module in (("gzip", gzip), ("bz2", bz2), ("lzma", lzma), ("zlib", zlib)):
    packed = module.compress(text)
    assert module.decompress(packed) == text
    print(name, "smaller than a tenth:", len(packed) < len(text) / 10)

with zipfile.ZipFile("bundle.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("rain.txt", text)
    z.writestr("notes/ünï.txt", "hello")
with zipfile.ZipFile("bundle.zip") as z:
    for info in z.infolist():
        print(info.filename, info.file_size, f"{info.CRC:08x}")
    print(z.read("notes/ünï.txt"), z.testzip())
    z.extract("rain.txt", "out")
print(open("out/rain.txt", "rb").read() == text)

with tarfile.open("bundle.tar.gz", "w:gz") as t:
    for name, blob in (("a.txt", b"A"), ("dir/b.txt", b"BB")):
        info = tarfile.TarInfo(name)
        info.size = len(blob)
        t.addfile(info, io.BytesIO(blob))
with tarfile.open("bundle.tar.gz") as t:
    print([(m.name, m.size) for m in t], t.extractfile("dir/b.txt").read())
try:
    gzip.decompress(b"not gzip")
except OSError as e:
    print(type(e).__name__)
