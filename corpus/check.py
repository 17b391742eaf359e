#!/usr/bin/env python3
"""Runs every program of this directory with an interpreter and compares what it prints with NAME.out.

    python3 check.py INTERPRETER [--hash-seed N] [--write] [NAME...]

A program whose needs the interpreter does not meet is skipped, by name. `--write` makes the .out files instead of comparing. It also
holds each program to the corpus's rules: a header, 10 to 80 lines, the imports of its preset, 2 seconds of CPU time, 200 MB, nothing on
stderr.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS_MAX = 2.0
MEMORY_KIB_MAX = 200_000
PRESETS = {"standard,data,open", "data,open"}
STANDARD_IMPORTS = set(
    "json math datetime itertools functools collections re typing dataclasses enum statistics random string textwrap time calendar "
    "zoneinfo csv decimal fractions numbers cmath heapq bisect array struct copy pprint uuid hashlib base64 binascii unicodedata "
    "difflib abc contextlib __future__".split()
)
REFUSED_NAMES = set(
    "eval exec compile __import__ open input vars globals locals breakpoint getattr setattr delattr".split()
)
REFUSED_ATTRIBUTES = set(
    "__class__ __dict__ __mro__ __bases__ __base__ __subclasses__ __globals__ __code__ __closure__ __builtins__ __traceback__ "
    "__getattribute__ __wrapped__ __self__ __func__ __module__ mro gi_frame f_back tb_frame".split()
)
REFUSED_METHODS = {"__get__", "__set__", "__delete__", "__set_name__", "__init_subclass__", "__class_getitem__"}


def header(text):
    """The presets and needs that the first comment lines name."""
    fields = dict(re.findall(r"^# (presets|needs): (\S+)$", "\n".join(text.splitlines()[:2]), re.M))
    return fields.get("presets", ""), [n for n in fields.get("needs", "").split(",") if n]


def breaches(text, presets):
    """What a program does that its header does not allow."""
    lines = text.count("\n")
    if presets not in PRESETS:
        yield f"bad presets {presets!r}"
    if not 10 <= lines <= 80:
        yield f"{lines} lines"
    if "standard" not in presets:
        return
    for node in ast.walk(ast.parse(text)):
        where = f"line {getattr(node, 'lineno', 0)}: "
        if isinstance(node, ast.Import):
            yield from (where + f"import {a.name}" for a in node.names if a.name not in STANDARD_IMPORTS | {"io"})
        elif isinstance(node, ast.ImportFrom):
            whole = node.module in STANDARD_IMPORTS
            part = node.module == "io" and {a.name for a in node.names} <= {"StringIO", "BytesIO"}
            if not (whole or part):
                yield where + f"from {node.module} import"
        elif isinstance(node, ast.Name) and node.id in REFUSED_NAMES:
            yield where + node.id
        elif isinstance(node, ast.Attribute):
            if node.attr in REFUSED_ATTRIBUTES:
                yield where + node.attr
            if isinstance(node.value, ast.Name) and node.value.id == "io" and node.attr not in ("StringIO", "BytesIO"):
                yield where + f"io.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) != 1:
            yield where + "type with three arguments"
        elif isinstance(node, ast.ClassDef) and node.keywords:
            yield where + "class keywords"
        elif isinstance(node, ast.FunctionDef) and node.name in REFUSED_METHODS:
            yield where + node.name


def unmet(interpreter, need, known={}):
    """Whether the interpreter lacks what a program needs."""
    if need not in known:
        if need.startswith("python>="):
            version = tuple(map(int, need[8:].split(".")))
            test = f"import sys; sys.exit(sys.version_info < {version})"
        else:
            test = f"import {need}"
        known[need] = subprocess.run([interpreter, "-c", test], stderr=subprocess.DEVNULL).returncode != 0
    return known[need]


def run(interpreter, path, hash_seed):
    """Stdout, and complaints, of one run in an empty directory."""
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        env = {"PATH": "/usr/bin:/bin", "HOME": work, "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"}
        child = subprocess.Popen([interpreter, str(path)], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = usage.ru_utime + usage.ru_stime
        out.seek(0), err.seek(0)
        complaint = err.read().decode(errors="replace").strip()
        problems = [f"exit code {child.returncode}"] if child.returncode else []
        problems += [f"stderr: {complaint[-400:]}"] if complaint else []
        problems += [f"{seconds:.1f} s of CPU time"] if seconds > SECONDS_MAX else []
        problems += [f"{usage.ru_maxrss} KiB"] if usage.ru_maxrss > MEMORY_KIB_MAX else []
        return out.read(), problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("interpreter")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--hash-seed", default="0")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_intermixed_args()

    passed, skipped, failed = 0, [], []
    for path in sorted(HERE.glob("*.py")):
        if path.name == Path(__file__).name or (args.names and path.stem not in args.names):
            continue
        text = path.read_text(encoding="utf-8")
        presets, needs = header(text)
        if any(unmet(args.interpreter, need) for need in needs):
            skipped.append(path.stem)
            continue
        expected = path.with_suffix(".out")
        output, problems = run(args.interpreter, path, args.hash_seed)
        problems += breaches(text, presets) if sys.version_info >= (3, 10) else []
        if args.write and not problems:
            expected.write_bytes(output)
        elif not expected.exists():
            problems.append("no .out file")
        elif expected.read_bytes() != output:
            problems.append("the output differs")
        if problems:
            failed.append(path.stem)
            print(f"FAIL {path.stem}: {'; '.join(problems)}")
        else:
            passed += 1
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped{': ' + ' '.join(skipped) if skipped else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
