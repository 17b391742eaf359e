//! The files below a directory as a source of an index. Opens by descriptor, follows no link, and leaves out hidden files,
//! secrets and what `.gitignore` names.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;

use ringfence_sys::{Budget, CallError, untrusted};
use rustix::fs::{FileType, Mode, OFlags};

use crate::ignore_rules::{
    IGNORE_FILE_BYTES_MAX, IGNORE_WALK_BYTES_MAX, IgnoreRules, is_hidden, is_secret,
};
use crate::index::{Source, SourceFile};

/// Maximum depth of directories.
const DEPTH_MAX: usize = 64;

/// Maximum names that are looked at.
const NAMES_MAX: u32 = 4_000_000;

const IGNORE_FILE: &str = ".gitignore";

/// A directory whose files are indexed.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// Opens a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(path, flags, Mode::empty())? })
    }
}

impl Source for Tree {
    fn files(
        &self,
        before_name: &mut dyn FnMut() -> ControlFlow<()>,
        each: &mut dyn FnMut(SourceFile) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let budget = Budget::entries(NAMES_MAX);
        let mut walk = Walk {
            budget,
            before_name,
            each,
            rules: Vec::new(),
            ignore_bytes_left: IGNORE_WALK_BYTES_MAX,
            path: String::new(),
        };
        // Opened anew: a listing goes on where the descriptor's last one ended.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&self.root, ".", flags, Mode::empty())?;
        let _ = walk.directory(&root, DEPTH_MAX).map_err(|error| io_error(&error))?;
        Ok(())
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn Read + '_>> {
        let opened: Result<File, _> = untrusted::open_file_beneath(&self.root, Path::new(path));
        match opened {
            Ok(file) => Ok(Box::new(file)),
            Err(untrusted::ReadError::Call(error)) => Err(error.errno.into()),
            Err(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

fn io_error(error: &CallError) -> io::Error {
    error.errno.into()
}

struct Walk<'a> {
    budget: Budget,
    before_name: &'a mut dyn FnMut() -> ControlFlow<()>,
    each: &'a mut dyn FnMut(SourceFile) -> ControlFlow<()>,
    /// Rules of the directories on the way down, with the length of the path of each.
    rules: Vec<(usize, IgnoreRules)>,
    /// Bytes of ignore files that are still read.
    ignore_bytes_left: u64,
    path: String,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &OwnedFd, depth: usize) -> Result<ControlFlow<()>, CallError> {
        let mut names: Vec<(OsString, FileType)> = Vec::new();
        let mut flow = ControlFlow::Continue(());
        untrusted::list(dir, &self.budget, |name, kind| {
            names.push((name.to_owned(), kind));
            flow = (self.before_name)();
            flow
        })?;
        if flow.is_break() {
            return Ok(flow);
        }
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let n_rules = self.rules.len();
        let bytes_max = IGNORE_FILE_BYTES_MAX.min(self.ignore_bytes_left);
        if names.iter().any(|(name, _)| name == IGNORE_FILE)
            && let Ok(bytes) = untrusted::read_beneath(dir, Path::new(IGNORE_FILE), bytes_max)
        {
            self.ignore_bytes_left -= bytes.len() as u64;
            let rules = IgnoreRules::parse(&String::from_utf8_lossy(&bytes));
            self.rules.push((self.path.len(), rules));
        }
        for (name, kind) in &names {
            // Before the rules of the directories above are matched, whose cost is that of a whole listing or more.
            flow = (self.before_name)();
            if flow.is_break() {
                break;
            }
            // A name that is not text cannot be shown or asked for.
            let Some(name) = name.to_str() else { continue };
            let len = self.path.len();
            self.path.push_str(name);
            flow = self.entry(dir, name, *kind, depth)?;
            self.path.truncate(len);
            if flow.is_break() {
                break;
            }
        }
        self.rules.truncate(n_rules);
        Ok(flow)
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        name: &str,
        kind: FileType,
        depth: usize,
    ) -> Result<ControlFlow<()>, CallError> {
        let is_dir = kind == FileType::Directory;
        if is_hidden(name) || self.is_ignored(is_dir) {
            return Ok(ControlFlow::Continue(()));
        }
        if is_dir && depth > 1 {
            // Removed or replaced meanwhile, or not readable.
            let Ok(below) = untrusted::open_directory_beneath(dir, Path::new(name)) else {
                return Ok(ControlFlow::Continue(()));
            };
            self.path.push('/');
            return self.directory(&below, depth - 1);
        }
        if kind != FileType::RegularFile || is_secret(name) {
            return Ok(ControlFlow::Continue(()));
        }
        let Some(stat) = untrusted::stat_at(dir, name) else {
            return Ok(ControlFlow::Continue(()));
        };
        let ns = |seconds: i64, nanos| {
            u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanos)
        };
        #[allow(clippy::unnecessary_fallible_conversions, clippy::useless_conversion)]
        // Types differ between targets.
        let stamp_ns = ns(stat.st_ctime.into(), u64::try_from(stat.st_ctime_nsec).unwrap_or(0));
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Ok((self.each)(SourceFile { path: self.path.clone(), size, stamp_ns }))
    }

    /// The deepest file with a rule decides.
    fn is_ignored(&self, is_dir: bool) -> bool {
        let decided = self
            .rules
            .iter()
            .rev()
            .find_map(|(start, rules)| rules.decide(&self.path[*start..], is_dir));
        decided == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::index::{Index, IndexLimits, Progress};

    #[test]
    fn many_hostile_ignore_files_take_bounded_time() {
        let dir = tempfile::tempdir().unwrap();
        let rules = format!("{}\n", "*a".repeat(250)).repeat(100);
        for n in 0..200 {
            fs::create_dir(dir.path().join(format!("{n}"))).unwrap();
            fs::write(dir.path().join(format!("{n}/.gitignore")), &rules).unwrap();
            fs::write(dir.path().join(format!("{n}/x.rs")), "x").unwrap();
        }
        let started = std::time::Instant::now();
        let mut n_files = 0;
        let tree = Tree::open(dir.path()).unwrap();
        tree.files(&mut || ControlFlow::Continue(()), &mut |_| {
            n_files += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(n_files, 200);
        // All of them would take over a minute in a debug build.
        assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    }

    #[test]
    fn an_update_with_hostile_rules_takes_bounded_time_and_can_be_ended() {
        let most = Duration::from_secs(1);
        let top = tempfile::tempdir().unwrap();
        let (mut dir, mut ignore_files) = (top.path().to_owned(), Vec::new());
        // Names of random letters of the rules, none of which they match: a directory that is ignored ends the walk.
        let mut state = 1u64;
        let mut letters = || -> String {
            let random = (0..220).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if state >> 63 == 0 { 'a' } else { 'b' }
            });
            random.chain(std::iter::repeat_n('b', 20)).collect()
        };
        for _ in 0..8 {
            dir.push(letters());
            fs::create_dir(&dir).unwrap();
            ignore_files.push(dir.join(IGNORE_FILE));
        }
        for n in 0..2000 {
            fs::create_dir(dir.join(format!("{n}{}.c", letters()))).unwrap();
        }
        for rule in [
            // Too many wildcards, and as many as there may be.
            format!("*a{}", "?".repeat(500)),
            format!("*a{}", "?".repeat(15)),
            // Matched with the whole path.
            format!("*/**/*a{}", "?".repeat(11)),
            format!("*a{}.c", "?".repeat(15)),
        ] {
            let rules = format!("{rule}\n").repeat((64 << 10) / (rule.len() + 1));
            for file in &ignore_files {
                fs::write(file, &rules).unwrap();
            }
            let tree = Tree::open(top.path()).unwrap();
            let index_dir = tempfile::tempdir().unwrap();
            let index = Index::open(index_dir.path(), IndexLimits::default()).unwrap();
            let started = Instant::now();
            // No file is reached: what ends it are names of directories.
            let report = index.update(&tree, &mut |_| ControlFlow::Break(())).unwrap();
            assert!(!report.is_complete, "{rule}");
            assert!(started.elapsed().as_secs() < 3, "{rule}: {:?}", started.elapsed());
            let started = Instant::now();
            let mut in_time = |_: &Progress| {
                if started.elapsed() < most {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            index.update(&tree, &mut in_time).unwrap();
            assert!(started.elapsed() < 4 * most, "{rule}: {:?}", started.elapsed());
        }
    }

    #[test]
    fn ignored_hidden_secret_and_linked_files_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(".gitignore", "*.log\n/out/\n");
        write("a.rs", "fn a() {}");
        write("a.log", "");
        write("out/b.rs", "");
        write("sub/.gitignore", "!keep.log\nc.rs\n");
        write("sub/keep.log", "");
        write("sub/c.rs", "");
        write("sub/out/d.rs", "");
        write(".hidden/e.rs", "");
        write("prod.env", "");
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(".", dir.path().join("loop")).unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        for _ in 0..2 {
            let mut paths = Vec::new();
            tree.files(&mut || ControlFlow::Continue(()), &mut |file| {
                paths.push(file.path);
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(paths, ["a.rs", "sub/keep.log", "sub/out/d.rs"]);
        }
        assert!(tree.open("link").is_err());
        assert!(tree.open("../x").is_err());
        let mut text = String::new();
        tree.open("a.rs").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "fn a() {}");
    }
}
