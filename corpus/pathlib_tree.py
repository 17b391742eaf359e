# presets: data,open
from pathlib import Path

root = Path("project")
for name, body in {
    "README.md": "# Demo\n",
    "src/app.py": "print('hi')\n" * 3,
    "src/util/text.py": "def f():\n    return 1\n",
    "src/util/__init__.py": "",
    "tests/test_app.py": "assert True\n",
    "data/größe.json": "{}",
}.items():
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body, encoding="utf-8")


def tree(path, prefix=""):
    entries = sorted(path.iterdir(), key=lambda p: (p.is_file(), p.name))
    for i, entry in enumerate(entries):
        last = i == len(entries) - 1
        print(prefix + ("└── " if last else "├── ") + entry.name + ("/" if entry.is_dir() else f" ({entry.stat().st_size} B)"))
        if entry.is_dir():
            tree(entry, prefix + ("    " if last else "│   "))


print(root.name)
tree(root)
py = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.py"))
print(py)
print({p.suffix or "-" for p in root.rglob("*") if p.is_file()} == {".md", ".py", ".json"})
app = root / "src" / "app.py"
print(app.stem, app.suffix, app.parent.as_posix(), app.with_suffix(".txt").name, app.parts[-2:])
lines = sum(len(p.read_text(encoding="utf-8").splitlines()) for p in root.glob("**/*.py"))
print("lines of Python:", lines)
app.unlink()
print(app.exists(), (root / "nothing").exists())
