# expect: ok
from pathlib import Path

inbox = Path("inbox")
inbox.mkdir()
for name in ["a.txt", "b.TXT", "photo.jpg", "song.mp3", "archive.tar.gz", "noext"]:
    (inbox / name).write_text(name)

for path in sorted(inbox.iterdir()):
    kind = path.suffix.lower().lstrip(".") or "other"
    target = Path("sorted") / kind / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)

for path in sorted(Path("sorted").rglob("*")):
    if path.is_file():
        print(path.as_posix(), path.stat().st_size, path.stem, path.suffixes)

inbox.rmdir()
print(inbox.exists(), Path("sorted/txt/a.txt").read_text(), Path("x/y/../z.py").name)
print(Path.cwd().is_absolute(), Path.home().is_absolute())
