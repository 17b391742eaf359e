# expect: ok
import os
import zipfile

os.makedirs("reports", exist_ok=True)
for month in ("jan", "feb", "mar"):
    with open(f"reports/{month}.txt", "w") as f:
        f.write(f"Report for {month}\n" * 50)

with zipfile.ZipFile("reports.zip", "w", compression=zipfile.ZIP_DEFLATED) as archive:
    for folder, _, files in os.walk("reports"):
        for name in sorted(files):
            archive.write(os.path.join(folder, name))
    archive.writestr("README.txt", "Three monthly reports")

with zipfile.ZipFile("reports.zip") as archive:
    print("damaged member:", archive.testzip())
    for info in archive.infolist():
        print(f"{info.filename:<20}{info.file_size:>6} -> {info.compress_size}")
    archive.extractall("unpacked")
print(sorted(os.listdir("unpacked/reports")))
