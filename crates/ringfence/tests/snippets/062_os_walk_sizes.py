# expect: ok
import os

for path, size in [("src/main.py", 120), ("src/lib/util.py", 300), ("docs/guide.md", 50), ("src/lib/big.bin", 5000)]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"." * size)


def human(size):
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"


total = 0
for folder, directories, files in os.walk("."):
    directories[:] = sorted(d for d in directories if not d.startswith("."))
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in files if not name.startswith("."))
    total += size
    print("  " * folder.count(os.sep) + os.path.basename(folder), human(size))

with os.scandir("src/lib") as entries:
    print(sorted((e.name, e.stat().st_size) for e in entries if e.is_file()))
