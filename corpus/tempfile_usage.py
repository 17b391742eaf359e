# presets: data,open
import os
import shutil
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory(dir=".", prefix="job-") as tmp:
    base = Path(tmp)
    print(base.name.startswith("job-"), base.is_dir())
    for i in range(3):
        (base / f"part{i}.txt").write_text(f"part {i}\n" * (i + 1))
    merged = base / "merged.txt"
    with merged.open("wb") as out:
        for part in sorted(base.glob("part*.txt")):
            with part.open("rb") as src:
                shutil.copyfileobj(src, out)
    print(merged.read_text().splitlines())
    shutil.copy(merged, "kept.txt")
print("gone:", not os.path.exists(tmp), "kept:", os.path.getsize("kept.txt"))

with tempfile.NamedTemporaryFile("w+", dir=".", suffix=".log", delete=False) as f:
    f.write("line one\nline two\n")
    f.seek(0)
    print(f.readline().strip(), os.path.splitext(f.name)[1])
os.unlink(f.name)

with tempfile.SpooledTemporaryFile(max_size=100, mode="w+") as spool:
    spool.write("x" * 50)
    spool.seek(10)
    print(len(spool.read()))

fd, path = tempfile.mkstemp(dir=".")
os.write(fd, b"raw")
os.close(fd)
print(open(path, "rb").read(), oct(os.stat(path).st_mode & 0o777))
os.replace(path, "final.bin")
print(sorted(os.listdir(".")))
