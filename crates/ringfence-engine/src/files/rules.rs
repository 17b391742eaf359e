//! Rules for file operations on a workspace: quota, size limits, names that may not be written or read. Checks names
//! only and never touches the disk. Compares names as the least distinguishing file system would.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ringfence_plan::catalogue;
use ringfence_spec::invisible::is_default_ignorable;
use ringfence_spec::{Code, Problem};

use super::path::{holds_control, joined};

/// Names that file operations may not write, unless the policy says otherwise.
pub const WRITE_FORBIDDEN: &[&str] = &[".env*", ".git/", "config.json"];

/// Names not copied out of a run, besides those that runs may not write. A directory with the last two is a repository for git.
const COPY_FORBIDDEN: &[&str] = &[".env*", ".git/", "HEAD", "commondir"];

/// Checks whether a run's file may be copied to the host under this name: not if host tools would obey it, nor if
/// printing the name would overwrite the lines around it. The error is the reason.
pub(crate) fn check_copy(path: &Path) -> Result<(), String> {
    static FORBIDDEN: LazyLock<Patterns> = LazyLock::new(|| forbidden(COPY_FORBIDDEN));
    let names: Vec<OsString> = path.iter().map(OsStr::to_owned).collect();
    if FORBIDDEN.matches(&names) {
        return Err("programs of the host obey a file of this name".to_owned());
    }
    if holds_control(path.as_os_str()) {
        return Err("its name holds a control character".to_owned());
    }
    Ok(())
}

/// Patterns for `names` and the names that runs may not write.
fn forbidden(names: &[&str]) -> Patterns {
    let names = names.iter().chain(catalogue::PROTECTED);
    // Falling back to no patterns would fail open.
    Patterns::parse(names.chain(catalogue::PROTECTED_WHEN_PRESENT))
        .expect("these patterns are constants, and a test reads them")
}

/// Rules of one workspace.
#[derive(Clone, Debug)]
pub struct FileRules {
    /// Disk quota of the workspace; `None` is unlimited.
    pub quota_bytes: Option<u64>,
    /// Read-write or read-only.
    pub access: FileAccess,
    /// Names that are never created, changed, moved, replaced or deleted.
    pub write_forbidden: Patterns,
    /// Names that are never read, nor moved to where they could be read.
    pub read_forbidden: Patterns,
    /// Maximum size of a written file.
    pub file_bytes_max: u64,
    /// Maximum bytes returned by one read.
    pub read_bytes_max: u64,
}

/// Access to a workspace's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileAccess {
    /// Reads and changes are allowed.
    #[default]
    ReadWrite,
    /// Every operation that changes files is refused.
    ReadOnly,
}

impl FileAccess {
    /// Converts the flag by which clients and stored sessions say it.
    pub const fn from_read_only(read_only: bool) -> Self {
        if read_only { Self::ReadOnly } else { Self::ReadWrite }
    }
}

impl Default for FileRules {
    /// 10 GB of disk, 100 MB per file, 10 MB per read; [`WRITE_FORBIDDEN`] and the names that runs may not write.
    fn default() -> Self {
        Self {
            quota_bytes: Some(10 << 30),
            access: FileAccess::ReadWrite,
            write_forbidden: forbidden(WRITE_FORBIDDEN),
            read_forbidden: Patterns::default(),
            file_bytes_max: 100 << 20,
            read_bytes_max: 10 << 20,
        }
    }
}

/// Name patterns, as in a `.gitignore`: without a slash inside, a pattern matches a name at any depth; with one, a
/// path from the workspace down. A match covers everything below it. Case is ignored.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    names: GlobSet,
    paths: GlobSet,
}

impl Patterns {
    /// Parses patterns. `*` matches within a name, `**` across names.
    pub fn parse<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, Problem> {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let wrong = |why: String| {
                Problem::usage(Code::PatternInvalid, format!("cannot use the pattern `{pattern}`"))
                    .cause(why)
            };
            // Cover the directory as well as its contents; else it could be moved away with its files.
            let mut text = pattern;
            while let Some(shorter) = text.strip_suffix('/').or_else(|| text.strip_suffix("/**")) {
                text = shorter;
            }
            let folded = String::from_utf8(fold(text.as_bytes())).unwrap_or_default();
            let anchored = folded.contains('/');
            let folded = folded.trim_start_matches('/');
            if folded.is_empty() {
                return Err(wrong("it names nothing".to_owned()));
            }
            let glob = GlobBuilder::new(folded)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|e| wrong(e.to_string()))?;
            if anchored {
                paths.add(glob)
            } else {
                names.add(glob)
            };
        }
        let build = |set: &GlobSetBuilder| {
            set.build().map_err(|e| {
                Problem::usage(Code::PatternInvalid, "cannot use these patterns").cause(e)
            })
        };
        Ok(Self { names: build(&names)?, paths: build(&paths)? })
    }

    /// Returns true if a path, or a directory above it, matches.
    pub(super) fn matches(&self, names: &[OsString]) -> bool {
        (1..=names.len()).any(|n| self.matches_last(&names[..n]))
    }

    /// Returns true if the path itself matches. The caller knows that no directory above it does.
    pub(super) fn matches_last(&self, names: &[OsString]) -> bool {
        let Some(last) = names.last() else { return false };
        if !self.names.is_empty() && either_form(&self.names, last.as_bytes()) {
            return true;
        }
        !self.paths.is_empty() && either_form(&self.paths, &joined(names))
    }

    /// Returns true if there are no patterns.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.paths.is_empty()
    }
}

/// Some file systems drop trailing dots and spaces, so `.git.` is also checked as `.git`.
fn either_form(set: &GlobSet, path: &[u8]) -> bool {
    let folded = fold(path);
    let is_match = |path: &[u8]| set.is_match(Path::new(OsStr::from_bytes(path)));
    if is_match(&folded) {
        return true;
    }
    let trimmed: Vec<&[u8]> = folded.split(|b| *b == b'/').map(trim_end).collect();
    let trimmed = OsString::from_vec(trimmed.join(&b'/'));
    trimmed.as_bytes() != folded && is_match(trimmed.as_bytes())
}

fn trim_end(name: &[u8]) -> &[u8] {
    let n_kept = name.iter().rposition(|b| !matches!(b, b'.' | b' ')).map_or(0, |at| at + 1);
    &name[..n_kept]
}

/// Removes case and invisible characters; keeps invalid UTF-8 as it is.
fn fold(name: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        let seen = chunk.valid().chars().filter(|c| !is_default_ignorable(*c));
        // Upper case, then lower: `ſ` and `ı` are lower-case already, and share a capital with `s` and `i`.
        for c in seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase) {
            folded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        folded.extend_from_slice(chunk.invalid());
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &[u8]) -> Vec<OsString> {
        path.split(|b| *b == b'/').map(|n| OsString::from_vec(n.to_vec())).collect()
    }

    #[test]
    fn the_default_patterns_match_these_and_not_those() {
        let patterns = FileRules::default().write_forbidden;
        let forbidden: &[&[u8]] = &[
            b".env",
            b".env.local",
            b".envrc",
            b"a/b/.env",
            b".ENV",
            b".Env.Production",
            b".env\xff",
            b".git",
            b".git/config",
            b"sub/.git/hooks/pre-commit",
            b".GIT/config",
            b".git./config",
            b".git /config",
            b".git. ./config",
            ".g\u{200c}it/config".as_bytes(),
            ".gıt/x".as_bytes(),
            b"config.json",
            b"deep/CONFIG.JSON",
            "config.jſon".as_bytes(),
            b"config.json/below",
            b".mcp.json",
            b".claude/settings.json",
            b"ringfence.toml",
        ];
        let free: &[&[u8]] = &[
            b"env",
            b"a.env",
            b".gitignore",
            b".github/workflows/ci.yml",
            b"git/config",
            b"config.json5",
            b"myconfig.json",
            b"...",
            b" ",
            "．git/config".as_bytes(),
        ];
        for path in forbidden {
            assert!(patterns.matches(&names(path)), "{}", path.escape_ascii());
        }
        for path in free {
            assert!(!patterns.matches(&names(path)), "{}", path.escape_ascii());
        }
    }

    #[test]
    fn a_pattern_with_a_slash_is_for_a_path_from_the_top() {
        let patterns = Patterns::parse(["secrets/*.pem", "**/.ssh/**", "/top.txt"]).unwrap();
        for path in ["secrets/a.pem", "Secrets/A.PEM", "x/.ssh/id", ".ssh", "top.txt"] {
            assert!(patterns.matches(&names(path.as_bytes())), "{path}");
        }
        for path in ["x/secrets/a.pem", "secrets/a/b.pem", "secrets", ".sshfoo", "a/top.txt"] {
            assert!(!patterns.matches(&names(path.as_bytes())), "{path}");
        }
    }

    #[test]
    fn what_the_host_would_obey_is_not_copied_out() {
        let kept = [".git/config", "a/.Git/hooks/x", ".mcp.json", "b/.claude/settings.json"];
        for path in kept.iter().chain(&[".envrc", ".vscode/tasks.json", ".env", "ringfence.toml"]) {
            assert!(check_copy(Path::new(path)).is_err(), "{path}");
        }
        assert!(check_copy(Path::new("a\x1b[31mb")).is_err());
        for path in ["figure-1.png", "config.json", "a/b.csv", ".gitignore", "ü.txt"] {
            assert_eq!(check_copy(Path::new(path)), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_pattern_that_says_nothing_is_refused() {
        for pattern in ["", "/", "//", "/**", "a[", "\u{200b}"] {
            assert_eq!(
                Patterns::parse([pattern]).unwrap_err().code.as_str(),
                "pattern_invalid",
                "{pattern:?}"
            );
        }
    }
}
