# expect: ok
import os
import shutil
from pathlib import Path

src = Path("data")
(src / "raw").mkdir(parents=True)
(src / "raw" / "one.csv").write_text("a,b\n1,2\n")
(src / "notes.txt").write_text("remember")
(src / "notes.bak").write_text("old")

shutil.copytree(src, "backup", ignore=shutil.ignore_patterns("*.bak"))
shutil.copy2(src / "notes.txt", "notes-copy.txt")
shutil.move("notes-copy.txt", "backup/notes-copy.txt")
archive = shutil.make_archive("backup", "zip", root_dir="backup")
print("archive:", os.path.basename(archive))

shutil.unpack_archive(archive, "restored")
print(sorted(p.relative_to("restored").as_posix() for p in Path("restored").rglob("*")))
shutil.rmtree(src)
usage = shutil.disk_usage(".")
print("data exists:", src.exists(), "- free space known:", usage.free > 0, "-", shutil.which("no-such-tool"))
