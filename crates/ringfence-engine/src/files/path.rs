//! A path as the guest writes it, parsed once into the names that lead from the workspace to it. Never touches the
//! disk. `..` is resolved by name, which is correct only because no link is ever followed.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use ringfence_plan::WORKSPACE;
use ringfence_spec::Problem;

use super::problems::{invalid, outside, shown_bytes};

/// Linux's `PATH_MAX`, including the final NUL.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// Linux's `NAME_MAX`.
const NAME_BYTES_MAX: usize = 255;

/// Names from the workspace down; none of them is empty, `.` or `..`, and none holds a NUL or a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GuestPath {
    names: Vec<OsString>,
    ends: Ends,
}

/// Ending of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    AsName,
    /// With `/`, `/.` or `/..`: the path can only mean a directory.
    AsDirectory,
}

impl GuestPath {
    /// Parses a path relative to the workspace, or absolute below `/workspace`.
    pub(super) fn parse(act: &str, path: &OsStr) -> Result<Self, Problem> {
        let bytes = path.as_bytes();
        if bytes.is_empty() {
            return Err(invalid(act, bytes, "the path is empty").hint("`.` names the workspace"));
        }
        if bytes.contains(&0) {
            return Err(invalid(act, bytes, "the path holds a NUL byte"));
        }
        if bytes.len() >= PATH_BYTES_MAX {
            return Err(invalid(act, bytes, "the path is longer than 4095 bytes"));
        }
        let mut rest = bytes.split(|b| *b == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let top = WORKSPACE.trim_start_matches('/').as_bytes();
        if bytes[0] == b'/' && rest.next() != Some(top) {
            return Err(outside(act, bytes));
        }
        let mut names: Vec<OsString> = Vec::new();
        for name in rest {
            if name == b".." {
                names.pop().ok_or_else(|| outside(act, bytes))?;
            } else if name.len() > NAME_BYTES_MAX {
                return Err(invalid(act, bytes, "a name in it is longer than 255 bytes"));
            } else {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        let last = bytes.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let directory = matches!(last, b"" | b"." | b"..");
        Ok(Self { names, ends: if directory { Ends::AsDirectory } else { Ends::AsName } })
    }

    /// Returns the names, topmost first.
    pub(super) fn names(&self) -> &[OsString] {
        &self.names
    }

    /// Splits into parent directory and name; `None` for the workspace itself.
    pub(super) fn split(&self) -> Option<(&[OsString], &OsStr)> {
        self.names.split_last().map(|(name, parents)| (parents, name.as_os_str()))
    }

    /// Returns true if the path's ending allows only a directory.
    pub(super) fn names_a_directory(&self) -> bool {
        self.ends == Ends::AsDirectory
    }

    /// Refuses control characters in the name of a new file: printing one would overwrite the lines around it.
    pub(super) fn check_new(&self, act: &str) -> Result<(), Problem> {
        if self.names.iter().any(|name| holds_control(name)) {
            return Err(invalid(act, &joined(&self.names), "a new name holds a control character"));
        }
        Ok(())
    }
}

impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.names))
    }
}

/// Returns true if a name holds a control character, which a terminal would interpret.
pub(super) fn holds_control(name: &OsStr) -> bool {
    name.as_bytes().iter().any(u8::is_ascii_control)
}

/// Joins names to a path of raw bytes.
pub(super) fn joined(names: &[OsString]) -> Vec<u8> {
    names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>().join(&b'/')
}

/// Returns a path relative to the workspace, without `.` and `..`. Invalid UTF-8 is replaced.
pub(crate) fn normal_path(act: &str, path: &OsStr) -> Result<String, Problem> {
    let path = GuestPath::parse(act, path)?;
    Ok(String::from_utf8_lossy(&joined(path.names())).into_owned())
}

/// Joins names to a path that is safe to print.
pub(super) fn shown(names: &[OsString]) -> String {
    if names.is_empty() { ".".to_owned() } else { shown_bytes(&joined(names)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> Result<String, &'static str> {
        GuestPath::parse("read", OsStr::new(path))
            .map(|p| p.to_string())
            .map_err(|e| e.code.as_str())
    }

    #[test]
    fn a_path_is_taken_as_the_guest_means_it() {
        let rows: &[(&str, Result<&str, &str>)] = &[
            ("a/b", Ok("a/b")),
            ("./a//b/", Ok("a/b")),
            ("a/../b", Ok("b")),
            ("a/b/../../c", Ok("c")),
            (".", Ok(".")),
            ("a/..", Ok(".")),
            ("/workspace", Ok(".")),
            ("/workspace/a", Ok("a")),
            ("//workspace//./a", Ok("a")),
            ("workspace/a", Ok("workspace/a")),
            ("..a", Ok("..a")),
            ("...", Ok("...")),
            ("..", Err("path_outside")),
            ("a/../..", Err("path_outside")),
            ("a/../../workspace/a", Err("path_outside")),
            ("/", Err("path_outside")),
            ("/workspace2/a", Err("path_outside")),
            ("/workspace/../workspace/a", Err("path_outside")),
            ("/work", Err("path_outside")),
            ("/etc/passwd", Err("path_outside")),
            ("", Err("name_invalid")),
            ("a\0b", Err("name_invalid")),
        ];
        for (path, expected) in rows {
            assert_eq!(parsed(path).as_deref(), expected.as_deref(), "{path:?}");
        }
    }

    #[test]
    fn names_and_paths_have_their_length() {
        assert!(parsed(&"n".repeat(255)).is_ok());
        assert_eq!(parsed(&"n".repeat(256)), Err("name_invalid"));
        assert!(parsed(&"a/".repeat(2047)).is_ok());
        assert_eq!(parsed(&"a/".repeat(2048)), Err("name_invalid"));
    }
}
