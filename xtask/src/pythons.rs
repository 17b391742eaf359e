//! Every interpreter found: the guest's own tests, then programs in warm workers with each level of speed-ups, whose
//! outcomes must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;

use crate::{CannotTry, Verdict, program};

/// Minor versions that must be found for the proof to hold.
const REQUIRED: std::ops::RangeInclusive<u32> = 9..=13;

/// Versions tried if there.
const SUPPORTED: std::ops::RangeInclusive<u32> = 9..=14;

const LEVELS: [&str; 3] = ["off", "safe", "full"];

/// Programs whose output does not depend on the interpreter, with their stdout.
const PROGRAMS: [(&str, &str); 9] = [
    ("print(sum(n * n for n in range(1000)))", "332833500\n"),
    (
        "import json, re, math; print(json.dumps([math.pi, re.findall('[a-z]+', 'ab1cd')]))",
        "[3.141592653589793, [\"ab\", \"cd\"]]\n",
    ),
    (
        "try:\n    1 // 0\nexcept ZeroDivisionError as e:\n    print(e, e.__traceback__.tb_lineno)",
        "integer division or modulo by zero 2\n",
    ),
    (
        "import threading\nfound = []\nts = [threading.Thread(target=found.append, args=(n,)) for n in range(8)]\n[t.start() for t in ts]; [t.join() for t in ts]\nprint(sorted(found))",
        "[0, 1, 2, 3, 4, 5, 6, 7]\n",
    ),
    (
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.001)\n    return n\nasync def main():\n    return await asyncio.gather(*map(f, range(5)))\nprint(asyncio.run(main()))",
        "[0, 1, 2, 3, 4]\n",
    ),
    (
        "import gc\nclass A: pass\nfor _ in range(10000):\n    a, b = A(), A()\n    a.b, b.a = b, a\nprint(gc.collect() >= 0)",
        "True\n",
    ),
    (
        "import dataclasses, functools\n@dataclasses.dataclass(order=True)\nclass P:\n    x: int\n@functools.lru_cache(None)\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nprint(max(P(1), P(2)), f(80))",
        "P(x=2) 23416728348467685\n",
    ),
    ("x = bytearray(60 << 20)\nx[-1] = 7\nprint(sum(x[-4096:]))", "7\n"),
    ("import ctypes\nprint(ctypes.sizeof(ctypes.c_long), ctypes.CDLL(None).abs(-5))", "8 5\n"),
];

/// A program that draws numbers: no two runs may print the same.
const DRAWN: &str = "import random; print(random.getrandbits(64), random.random())";
const N_DRAWN: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct PythonsArgs {
    /// A binary built elsewhere
    #[arg(long)]
    binary: Option<PathBuf>,
    /// An interpreter besides those in PATH and pyenv's; may be repeated
    #[arg(long)]
    python: Vec<PathBuf>,
}

pub(crate) fn pythons(args: &PythonsArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let found = interpreters(&args.python);
    let missing: Vec<_> = REQUIRED.filter(|minor| !found.contains_key(minor)).collect();
    let mut verdict = if missing.is_empty() { Verdict::Held } else { Verdict::Failed };
    for minor in &missing {
        println!("3.{minor}: not found");
    }
    let list: Vec<_> = found.values().map(|path| path.to_string_lossy()).collect();
    let tests = program::cargo()
        .args(["test", "--package", "ringfence-python", "--test", "guest"])
        .env("RINGFENCE_TEST_PYTHONS", list.join(":"))
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !tests.success() {
        verdict = Verdict::Failed;
    }
    for (minor, python) in &found {
        for level in LEVELS {
            match batch(&binary, python, level) {
                Ok(()) => println!("3.{minor} {level}: {} programs", PROGRAMS.len() + N_DRAWN),
                Err(why) => {
                    println!("3.{minor} {level}: {why}");
                    verdict = Verdict::Failed;
                }
            }
        }
    }
    Ok(verdict)
}

/// Runs the programs in one batch with this level.
fn batch(binary: &Path, python: &Path, level: &str) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|e| e.to_string())?;
    let codes = PROGRAMS.iter().map(|(code, _)| *code).chain([DRAWN; N_DRAWN]);
    let items: Vec<String> = codes
        .enumerate()
        .map(|(id, code)| serde_json::json!({"id": id.to_string(), "code": code}).to_string())
        .collect();
    let mut child = Command::new(binary)
        .args(["batch", "--preset", "open", "--python"])
        .arg(python)
        .arg("--data-dir")
        .arg(data.path())
        .arg("-")
        .env("RINGFENCE_WORKER_SPEEDUPS", level)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let sent = child.stdin.take().map(|mut stdin| stdin.write_all(items.join("\n").as_bytes()));
    sent.transpose().map_err(|e| e.to_string())?;
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let mut outcomes: BTreeMap<usize, Value> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let outcome: Value = serde_json::from_str(line).map_err(|e| format!("{e}: {line}"))?;
        let id = outcome["id"].as_str().and_then(|id| id.parse().ok());
        outcomes.insert(id.ok_or_else(|| format!("no id: {line}"))?, outcome);
    }
    let mut drawn = BTreeSet::new();
    for id in 0..items.len() {
        let outcome = outcomes.get(&id).ok_or_else(|| format!("no outcome of program {id}"))?;
        let stdout = outcome["stdout"].as_str().unwrap_or_default();
        match PROGRAMS.get(id) {
            Some((_, expected)) if stdout == *expected => {}
            None if !stdout.is_empty() && drawn.insert(stdout) => {}
            _ => return Err(format!("program {id}: {outcome}")),
        }
    }
    Ok(())
}

/// Interpreters by minor version: those given, in PATH, and pyenv's.
fn interpreters(given: &[PathBuf]) -> BTreeMap<u32, PathBuf> {
    let named = SUPPORTED.map(|minor| PathBuf::from(format!("python3.{minor}")));
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".pyenv")));
    let versions = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let versions =
        versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin/python3"));
    let mut found = BTreeMap::new();
    for candidate in given.iter().cloned().chain(versions).chain(named) {
        let script = "import sys; print(sys.version_info[1], sys.executable)";
        let output =
            Command::new(&candidate).args(["-I", "-c", script]).stderr(Stdio::null()).output();
        let Ok(output) = output else { continue };
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let Some((minor, path)) = text.split_once(' ') else { continue };
        if let Some(minor) = minor.parse().ok().filter(|minor| SUPPORTED.contains(minor)) {
            found.entry(minor).or_insert_with(|| PathBuf::from(path));
        }
    }
    found
}
