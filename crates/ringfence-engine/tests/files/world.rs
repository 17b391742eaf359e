//! A workspace with something outside it that must stay as it is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_engine::files::{
    Durability, FileRules, Lookup, Parents, Workspace, WriteMode, WriteOptions,
};
use ringfence_spec::Problem;
use ringfence_testing::{BoundedCommand as _, TimeLimit, limit, missing};

pub(crate) const LOOKUPS: [Lookup; 2] = [Lookup::Kernel, Lookup::ByHand];

/// What files outside hold, and what one is called; nothing that an operation returns may hold it.
pub(crate) const CANARY: &str = "canary-e1f7";

pub(crate) const REPLACE: WriteOptions = WriteOptions {
    mode: WriteMode::Replace,
    durability: Durability::SurvivesCrash,
    parents: Parents::MustExist,
};

pub(crate) const CREATE: WriteOptions = WriteOptions { mode: WriteMode::Create, ..REPLACE };
pub(crate) const APPEND: WriteOptions = WriteOptions { mode: WriteMode::Append, ..REPLACE };

pub(crate) struct World {
    dir: tempfile::TempDir,
    /// Threads, locks and pipes have no other end.
    _limit: TimeLimit,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("outside/sub")).unwrap();
        std::fs::write(dir.path().join("outside/secret.txt"), CANARY).unwrap();
        std::fs::write(dir.path().join("outside/sub/secret.txt"), CANARY).unwrap();
        std::fs::write(dir.path().join("outside").join(CANARY), CANARY).unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        std::fs::create_dir(dir.path().join("ws2")).unwrap();
        std::fs::write(dir.path().join("ws2/secret.txt"), CANARY).unwrap();
        Self { dir, _limit: TimeLimit::of(3 * limit()) }
    }

    pub(crate) fn open(&self, lookup: Lookup) -> Workspace {
        self.open_by(FileRules::default(), lookup)
    }

    pub(crate) fn open_by(&self, rules: FileRules, lookup: Lookup) -> Workspace {
        Workspace::open_with(&self.dir.path().join("ws"), rules, lookup).unwrap()
    }

    /// A path of the host's inside the workspace.
    pub(crate) fn inside(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join("ws").join(path)
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    pub(crate) fn put(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.inside(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.inside(path)).unwrap();
    }

    /// Everything beside the workspace: content, inode, mode and time of change.
    pub(crate) fn beside(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        for top in ["outside", "ws2"] {
            remember(&self.dir.path().join(top), &mut found);
        }
        found
    }

    /// Removes the workspace as the end of its session does.
    pub(crate) fn remove(&self) {
        let budget = ringfence_jail::Budget::time(ringfence_testing::limit());
        ringfence_jail::remove_tree(&self.inside(""), &budget).unwrap();
        assert!(!self.inside("").exists());
    }

    /// The names directly in a directory of the workspace.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.inside(path)).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn remember(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let meta = std::fs::symlink_metadata(path).unwrap();
    let content = if meta.is_file() { std::fs::read(path).unwrap() } else { Vec::new() };
    let line = format!("{} {:o} {}.{}", meta.ino(), meta.mode(), meta.ctime(), meta.ctime_nsec());
    found.insert(path.to_owned(), format!("{line} {}", content.escape_ascii()));
    if meta.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            remember(&entry.unwrap().path(), found);
        }
    }
}

/// `ok`, or the code of the problem.
pub(crate) fn code<T>(result: &Result<T, Problem>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(problem) => problem.code.as_str(),
    }
}

pub(crate) fn fifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
}

/// Runs one ignored test of this binary in namespaces of its own, after a shell line that may mount. The directory is
/// `$DIR` for both. Where this host has no such namespaces the skip is loud.
pub(crate) fn in_namespace(test: &str, dir: &Path, setup: &str) {
    let inner = r#"eval "$SETUP" && exec "$TEST" --exact "$NAME" --ignored --nocapture"#;
    let probe = Command::new("unshare").args(["-rm", "true"]).bounded_output();
    if !probe.is_ok_and(|o| o.status.success()) {
        missing("namespaces", &format!("this host has no user namespaces for {test}"));
        return;
    }
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", inner])
        .env("SETUP", setup)
        .env("TEST", std::env::current_exe().unwrap())
        .env("NAME", test)
        .env("DIR", dir)
        .bounded_output()
        .unwrap();
    let text =
        [output.stdout.as_slice(), OsStr::new("\n").as_encoded_bytes(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{test}:\n{text}");
}
