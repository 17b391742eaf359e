# expect: ok
import bz2
import gzip
import lzma
import shutil

text = "".join(f"line {i:05d} status={'ok' if i % 7 else 'failed'}\n" for i in range(5000))
with gzip.open("app.log.gz", "wt", encoding="utf-8") as f:
    f.write(text)

failed = 0
with gzip.open("app.log.gz", "rt", encoding="utf-8") as f:
    for line in f:
        if line.rstrip().endswith("failed"):
            failed += 1
print("failed lines:", failed)

with gzip.open("app.log.gz", "rb") as src, open("app.log", "wb") as dst:
    shutil.copyfileobj(src, dst)
data = open("app.log", "rb").read()
for name, module in (("gzip", gzip), ("bz2", bz2), ("lzma", lzma)):
    packed = module.compress(data)
    assert module.decompress(packed) == data
    print(f"{name}: smaller than a tenth: {len(packed) < len(data) / 10}")
