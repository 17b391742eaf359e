# expect: ok
import hashlib
from collections import defaultdict
from pathlib import Path

for name, content in {"a.txt": "same", "b.txt": "same", "c.txt": "other", "d/e.txt": "same"}.items():
    path = Path("files") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def sha256(path, chunk_size=8192):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


groups = defaultdict(list)
for path in sorted(Path("files").rglob("*.txt")):
    groups[sha256(path)].append(path.as_posix())
for digest, paths in groups.items():
    if len(paths) > 1:
        print(digest[:12], paths)

print(hashlib.md5(b"hello").hexdigest())
print(hashlib.pbkdf2_hmac("sha256", b"example", b"salt", 1000).hex()[:16], "sha256" in hashlib.algorithms_available)
