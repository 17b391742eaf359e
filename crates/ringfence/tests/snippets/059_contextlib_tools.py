# expect: ok
import contextlib
import io
import os


@contextlib.contextmanager
def working_directory(path):
    previous = os.getcwd()
    os.makedirs(path, exist_ok=True)
    os.chdir(path)
    try:
        yield path
    finally:
        os.chdir(previous)


before = os.getcwd()
with working_directory("build") as name:
    print("in", os.path.basename(os.getcwd()), name)
assert os.getcwd() == before

with contextlib.suppress(FileNotFoundError):
    os.remove("does-not-exist.txt")

buffer = io.StringIO()
with contextlib.redirect_stdout(buffer):
    print("captured text")
print(repr(buffer.getvalue()))

with contextlib.ExitStack() as stack:
    files = [stack.enter_context(open(f"part{i}.txt", "w")) for i in range(3)]
    stack.callback(print, "all files closed")
    for i, f in enumerate(files):
        f.write(str(i))
print([f.closed for f in files])
