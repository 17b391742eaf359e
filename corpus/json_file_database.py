# presets: data,open
import json
import os
from pathlib import Path
import shutil


class Store:
    """A tiny document store: one JSON file, atomic saves, one backup."""

    def __init__(self, path):
        self.path = Path(path)
        self.docs = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}

    def save(self):
        if self.path.exists():
            shutil.copy2(self.path, self.path.with_suffix(".bak"))
        tmp = self.path.with_suffix(".tmp")
        with tmp.open("w", encoding="utf-8") as f:
            json.dump(self.docs, f, ensure_ascii=False, indent=1, sort_keys=True)
            f.flush()
            os.fsync(f.fileno())
        os.replace(tmp, self.path)

    def __setitem__(self, key, doc):
        self.docs[key] = doc
        self.save()

    def __getitem__(self, key):
        return self.docs[key]

    def find(self, **criteria):
        return [k for k, d in sorted(self.docs.items()) if all(d.get(f) == v for f, v in criteria.items())]


db = Store("people.json")
db["1"] = {"name": "Łukasz", "city": "Kraków", "langs": ["pl", "en"]}
db["2"] = {"name": "Nia", "city": "Cardiff", "langs": ["cy"]}
db["3"] = {"name": "Ola", "city": "Kraków", "langs": []}

again = Store("people.json")
print(again.find(city="Kraków"), again["2"]["name"])
print(len(Store("people.bak").docs), sorted(p.name for p in Path().iterdir()))
print(Path("people.json").read_text(encoding="utf-8").splitlines()[1:4])
Path("people.json").write_text("{broken", encoding="utf-8")
try:
    Store("people.json")
except json.JSONDecodeError as e:
    print("corrupt at", e.pos)
shutil.move("people.bak", "people.json")
print(len(Store("people.json").docs), shutil.disk_usage(".").total > 0)
