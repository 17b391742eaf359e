# presets: standard,data,open
import hashlib
from collections import defaultdict

FILES = {
    "a/readme.txt": b"hello world\n",
    "a/copy of readme.txt": b"hello world\n",
    "b/notes.md": b"# Notes\n",
    "b/empty": b"",
    "c/empty2": b"",
    "c/notes.md": b"# notes\n",
    "d/big.bin": bytes(range(256)) * 40,
    "d/big2.bin": bytes(range(256)) * 40,
}


def duplicates(files):
    by_size = defaultdict(list)
    for path, blob in files.items():
        by_size[len(blob)].append(path)
    for size, paths in sorted(by_size.items()):
        if len(paths) < 2:
            continue
        by_hash = defaultdict(list)
        for path in paths:
            by_hash[hashlib.sha256(files[path]).hexdigest()].append(path)
        for digest, same in sorted(by_hash.items()):
            if len(same) > 1:
                yield size, digest[:12], sorted(same)


wasted = 0
for size, digest, same in duplicates(FILES):
    print(f"{size:>6} bytes {digest} {', '.join(same)}")
    wasted += size * (len(same) - 1)
print("could be saved:", wasted, "bytes")


def human(n):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.1f} {unit}"
        n /= 1024


print([human(n) for n in (0, 999, 2048, 5 * 1024**2, 3 * 1024**4)])
