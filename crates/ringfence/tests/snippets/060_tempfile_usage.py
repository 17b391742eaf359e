# expect: ok
import os
import tempfile

with tempfile.TemporaryDirectory(prefix="job-") as folder:
    path = os.path.join(folder, "data.bin")
    with open(path, "wb") as f:
        f.write(os.urandom(1024))
    print("size:", os.path.getsize(path))
print("removed:", not os.path.exists(folder))

with tempfile.NamedTemporaryFile("w+", suffix=".txt", delete=False) as tmp:
    tmp.write("hello\nworld\n")
    tmp.seek(0)
    print(tmp.readlines())
os.unlink(tmp.name)

with tempfile.SpooledTemporaryFile(max_size=100) as spooled:
    spooled.write(b"x" * 500)
    spooled.seek(0)
    print(len(spooled.read()))
fd, name = tempfile.mkstemp()
os.close(fd)
os.remove(name)
