# expect: ok
import io
import tarfile
from pathlib import Path

src = Path("project")
(src / "docs").mkdir(parents=True)
(src / "main.py").write_text("print('hello')\n")
(src / "docs" / "index.md").write_text("# Project\n")
(src / "cache.tmp").write_text("ignore me")


def skip_temporary(info):
    return None if info.name.endswith(".tmp") else info


with tarfile.open("backup.tar.gz", "w:gz") as tar:
    tar.add(src, arcname="project", filter=skip_temporary)
    note = b"made by a script"
    info = tarfile.TarInfo("project/NOTE")
    info.size = len(note)
    tar.addfile(info, io.BytesIO(note))

with tarfile.open("backup.tar.gz") as tar:
    print(sorted(tar.getnames()))
    print(tar.extractfile("project/NOTE").read().decode())
