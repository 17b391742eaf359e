//! Errors of file operations, in terms of the guest's path, never the host's.

use std::ffi::OsString;
use std::fmt::Write as _;

use ringfence_spec::{Code, Problem, ProblemKind};
use rustix::io::Errno;

use super::path::shown;

/// Maximum characters of a path repeated in an error.
const SHOWN_CHARS_MAX: usize = 200;

/// The path leads out of the workspace.
pub(super) fn outside(act: &str, path: &[u8]) -> Problem {
    Problem::refused(Code::PathOutside, cannot(act, &shown_bytes(path)))
        .cause("the path leads out of the workspace")
        .hint("name a file of the session, relative to its workspace or below `/workspace`")
}

/// The path is malformed, or not valid for a new file.
pub(super) fn invalid(act: &str, path: &[u8], why: &str) -> Problem {
    Problem::usage(Code::NameInvalid, cannot(act, &shown_bytes(path))).cause(why)
}

/// A policy rule forbids the path.
pub(super) fn forbidden(act: &str, names: &[OsString], why: impl Into<String>) -> Problem {
    Problem::refused(Code::PathForbidden, cannot(act, &shown(names))).cause(why.into())
}

/// The session is read-only.
pub(super) fn read_only(act: &str, path: &str) -> Problem {
    Problem::refused(Code::ReadOnly, cannot(act, path))
        .cause("this session may only read its files")
}

/// The path is not a regular file.
pub(super) fn not_a_file(act: &str, path: &str, what: &str) -> Problem {
    Problem::usage(Code::NotAFile, cannot(act, path))
        .cause(format!("it is {what}, not a plain file"))
}

/// A limit is exceeded.
pub(super) fn too_large(act: &str, path: &str, why: impl Into<String>) -> Problem {
    Problem::refused(Code::TooLarge, cannot(act, path)).cause(why.into())
}

/// The path already exists.
pub(super) fn exists(act: &str, path: &str) -> Problem {
    Problem::usage(Code::Exists, cannot(act, path)).cause("it exists already")
}

/// The kernel refused a system call.
pub(super) fn refused_by_kernel(act: &str, path: &str, errno: Errno) -> Problem {
    let (kind, code) = match errno {
        Errno::NOENT => (ProblemKind::Usage, Code::NotFound),
        Errno::EXIST => (ProblemKind::Usage, Code::Exists),
        Errno::NOTEMPTY => (ProblemKind::Usage, Code::NotEmpty),
        Errno::NOTDIR => (ProblemKind::Usage, Code::NotADirectory),
        Errno::ISDIR => (ProblemKind::Usage, Code::NotAFile),
        Errno::LOOP => (ProblemKind::Refused, Code::PathLink),
        Errno::XDEV => (ProblemKind::Refused, Code::PathMount),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => (ProblemKind::Refused, Code::NoPermission),
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => (ProblemKind::Usage, Code::NameInvalid),
        Errno::NOSPC | Errno::DQUOT => (ProblemKind::CannotBuild, Code::DiskFull),
        Errno::FBIG => (ProblemKind::Refused, Code::TooLarge),
        // AGAIN: another process holds a lease on the file, and the open would wait for it.
        Errno::AGAIN | Errno::BUSY | Errno::TXTBSY => (ProblemKind::Refused, Code::Busy),
        _ => (ProblemKind::Internal, Code::FileFailed),
    };
    Problem::new(kind, code, cannot(act, path)).cause(errno)
}

/// First line of every error here.
pub(super) fn cannot(act: &str, path: &str) -> String {
    format!("cannot {act} `{path}`")
}

/// Renders a path as printable text of limited length. Invalid UTF-8 and invisible characters are escaped.
pub(super) fn shown_bytes(path: &[u8]) -> String {
    // Most are short and plain, and a search shows the path of every file.
    let is_plain = |b: &u8| matches!(b, b' '..=b'~') && *b != b'`';
    if path.len() <= SHOWN_CHARS_MAX && path.iter().all(is_plain) {
        return String::from_utf8_lossy(path).into_owned();
    }
    let mut text = String::new();
    let mut n_chars = 0;
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            n_chars += 1;
            if n_chars > SHOWN_CHARS_MAX {
                text.push('…');
                return text;
            }
            // A backtick would end the quotation; characters that `escape_debug` escapes do not print as themselves.
            match c {
                '\\' | '\'' | '"' => text.push(c),
                '`' => text.push_str("\\u{60}"),
                _ => text.extend(c.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            n_chars += 1;
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::shown_bytes;

    #[test]
    fn what_is_shown_cannot_draw_over_what_is_around_it() {
        let rows: &[(&[u8], &str)] = &[
            (b"a/b.txt", "a/b.txt"),
            ("grün/日本".as_bytes(), "grün/日本"),
            (b"a\nb\x1b[2J", "a\\nb\\u{1b}[2J"),
            (b"a\xffb", "a\\xffb"),
            ("a\u{202e}b\u{200b}".as_bytes(), "a\\u{202e}b\\u{200b}"),
            (b"a`b", "a\\u{60}b"),
        ];
        for (path, expected) in rows {
            assert_eq!(shown_bytes(path), *expected);
        }
        assert_eq!(shown_bytes(&[b'a'; 5000]).chars().count(), 201);
    }
}
