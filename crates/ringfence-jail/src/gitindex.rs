//! Which directories a git index says are repositories of their own. The host's git goes into each of them and obeys
//! its config, so one that a run added is reported. Reads the index as hostile input: bounded, and nothing for nonsense.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::open::read_small;

/// An index larger than this is not read.
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// Repositories reported at most.
const LINKS_MAX: usize = 64;

/// The mode of an entry that is a repository: `S_IFGITLINK`.
const GITLINK: u32 = 0o160_000;

/// Bytes of an entry before its name: times, device, inode, mode, owner, size, SHA-1, flags.
const FIXED_BYTES: usize = 62;

/// The index file `path`, if it was written since `since` (seconds of the epoch): its nested repositories.
pub(crate) fn links_since(path: &Path, since: i64) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() && meta.ctime() >= since => {
            read_small(path, INDEX_BYTES_MAX).map(|bytes| links(&bytes)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Whether a nested repository, or what it tells git to do, was made or changed since `since`.
pub(crate) fn changed_since(git: &Path, since: i64) -> bool {
    use std::os::unix::fs::MetadataExt;
    let changed = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|m| m.ctime() >= since);
    changed(git) || changed(&git.join("config")) || changed(&git.join("hooks"))
}

fn links(index: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // Nonsense ends the walk; what was found before it counts.
    let _ = walk(index, &mut found);
    found
}

/// gitformat-index(5), versions 2 to 4.
fn walk(index: &[u8], found: &mut Vec<PathBuf>) -> Option<()> {
    let number =
        |at: usize| index.get(at..at + 4)?.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, n_entries) = (number(4)?, number(8)?);
    let mut at = 12;
    let mut name: Vec<u8> = Vec::new();
    for _ in 0..n_entries {
        let mode = number(at + 24)?;
        let flags = u16::from_be_bytes(*index.get(at + 60..at + 62)?.first_chunk::<2>()?);
        // Version 3 and later: a bit says that two more bytes of flags follow.
        let extended = version >= 3 && flags & 0x4000 != 0;
        let mut next = at + FIXED_BYTES + if extended { 2 } else { 0 };
        if version >= 4 {
            // The name is what the one before had, less so many bytes, and a new end.
            let (strip, used) = varint(index.get(next..)?)?;
            next += used;
            name.truncate(name.len().checked_sub(strip)?);
            let end = index.get(next..)?.iter().position(|b| *b == 0)?;
            name.extend_from_slice(&index[next..next + end]);
            at = next + end + 1;
        } else {
            let end = index.get(next..)?.iter().position(|b| *b == 0)?;
            name.clear();
            name.extend_from_slice(&index[next..next + end]);
            // Entries are padded with one to eight NULs to a multiple of eight bytes.
            at += (next + end - at + 8) & !7;
        }
        if mode == GITLINK && found.len() < LINKS_MAX {
            found.push(PathBuf::from(std::ffi::OsStr::from_bytes(&name)));
        }
    }
    Some(())
}

/// The offset encoding of pack files.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (i, byte) in bytes.iter().take(8).enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, i + 1));
        }
        value += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_testing::BoundedCommand as _;
    use std::process::Command;

    fn git(dir: &Path, args: &[&str]) {
        let base = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "safe.directory=*"];
        let output =
            Command::new("git").args(base).args(args).current_dir(dir).bounded_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn nested_repositories_are_found_in_every_version() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, &["init", "-q", "."]);
        for name in ["a", "deep/er/b"] {
            let nested = root.join(name);
            std::fs::create_dir_all(&nested).unwrap();
            git(&nested, &["init", "-q", "."]);
            git(&nested, &["commit", "-q", "--allow-empty", "-m", "x"]);
        }
        for i in 0..40 {
            std::fs::write(root.join(format!("file-{i}")), "x").unwrap();
        }
        git(root, &["add", "-A"]);
        for version in ["2", "3", "4"] {
            git(root, &["update-index", "--index-version", version]);
            let links = links_since(&root.join(".git/index"), 0);
            assert_eq!(links, [Path::new("a"), Path::new("deep/er/b")], "version {version}");
        }
        assert!(links_since(&root.join(".git/index"), i64::MAX).is_empty());
    }

    #[test]
    fn nonsense_is_nothing() {
        for bytes in
            [&b""[..], b"DIRC", b"DIRC\0\0\0\x02\xff\xff\xff\xff", b"NOPE\0\0\0\x02\0\0\0\x01"]
        {
            assert!(links(bytes).is_empty());
        }
        let mut cut = b"DIRC\0\0\0\x04\0\0\0\x02".to_vec();
        cut.extend([0u8; 70]);
        assert!(links(&cut).is_empty());
    }
}
