# expect: ok
import fnmatch
import glob
import os

for i in range(1, 6):
    open(f"IMG_{i}.jpeg", "w").close()
open("notes.txt", "w").close()

for path in sorted(glob.glob("IMG_*.jpeg")):
    number = int(os.path.splitext(path)[0].split("_")[1])
    os.rename(path, f"holiday-{number:03d}.jpg")

print(sorted(glob.glob("*.jpg")))
print(fnmatch.filter(sorted(os.listdir(".")), "holiday-00[1-3].*"))
os.makedirs("a/b", exist_ok=True)
open("a/b/deep.txt", "w").close()
print(sorted(glob.glob("**/*.txt", recursive=True)))
