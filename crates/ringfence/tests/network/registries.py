"""Writes the files of one tiny package for each registry that `tools.rs` serves. Usage: registries.py DIRECTORY URL.

`index.html` stands for the path of its directory. Every package is called `tiny` and says `forty-two`.
"""

import base64
import hashlib
import io
import json
import pathlib
import sys
import tarfile
import zipfile

root, url = pathlib.Path(sys.argv[1]), sys.argv[2]


def write(path, content):
    path = root / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def tarred(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


write("hello", "forty-two\n")

# The simple index of PEP 503.
info = "tiny-1.0.dist-info"
wheel = zipped(
    {
        "tiny.py": "ANSWER = 'forty-two'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }
)
name = "tiny-1.0-py3-none-any.whl"
write(f"wheels/{name}", wheel)
link = f"../../wheels/{name}#sha256={hashlib.sha256(wheel).hexdigest()}"
write("simple/tiny/index.html", f'<!DOCTYPE html><a href="{link}">{name}</a>')

# An npm registry's document of a package, without fields that no client needs.
manifest = {"name": "tiny", "version": "1.0.0", "main": "index.js"}
package = tarred(
    {
        "package/package.json": json.dumps(manifest),
        "package/index.js": "module.exports = 'forty-two'\n",
    }
)
digest = base64.b64encode(hashlib.sha512(package).digest()).decode()
dist = {"tarball": f"{url}/npm-files/tiny-1.0.0.tgz", "integrity": f"sha512-{digest}"}
document = {
    "name": "tiny",
    "dist-tags": {"latest": "1.0.0"},
    "versions": {"1.0.0": {**manifest, "dist": dist}},
}
write("npm/tiny", json.dumps(document))
write("npm-files/tiny-1.0.0.tgz", package)

# A sparse index of cargo.
crate = tarred(
    {
        "tiny-1.0.0/Cargo.toml": '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n',
        "tiny-1.0.0/src/lib.rs": "pub const ANSWER: &str = \"forty-two\";\n",
    }
)
entry = {
    "name": "tiny",
    "vers": "1.0.0",
    "deps": [],
    "cksum": hashlib.sha256(crate).hexdigest(),
    "features": {},
    "yanked": False,
}
write("index/config.json", json.dumps({"dl": f"{url}/crates"}))
write("index/ti/ny/tiny", json.dumps(entry) + "\n")
write("crates/tiny/1.0.0/download", crate)

# A module proxy of go.
module, version = "example.test/tiny", "v1.0.0"
versions = f"go/{module}/@v"
write(f"{versions}/list", f"{version}\n")
write(f"{versions}/{version}.info", json.dumps({"Version": version}))
write(f"{versions}/{version}.mod", f"module {module}\n")
files = {"go.mod": f"module {module}\n", "tiny.go": 'package tiny\n\nconst Answer = "forty-two"\n'}
write(
    f"{versions}/{version}.zip",
    zipped({f"{module}@{version}/{name}": text for name, text in files.items()}),
)
