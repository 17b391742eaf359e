//! Errors of a ledger, each with a stable code, and a hint where one applies.

use std::path::Path;

use ringfence_spec::{Code, Problem};
use rusqlite::ErrorCode;
use rustix::io::Errno;

/// The directory or a file in it cannot be written.
pub(crate) fn unwritable(path: &Path, cause: impl std::fmt::Display) -> Problem {
    Problem::cannot_build(Code::LedgerUnwritable, format!("cannot write the ledger in {path:?}"))
        .cause(cause)
}

/// The content is not that of a ledger.
pub(crate) fn corrupt(path: &Path, cause: impl std::fmt::Display) -> Problem {
    Problem::cannot_build(Code::LedgerCorrupt, format!("the ledger in {path:?} is damaged"))
        .cause(cause)
        .hint("nothing was changed; keep a copy of the directory for inquiry, and move it away to start a new ledger")
}

/// Written by a later release.
pub(crate) fn newer(path: &Path, found: i64, known: i64) -> Problem {
    Problem::cannot_build(
        Code::LedgerNewer,
        format!("a newer Ringfence wrote the ledger in {path:?}"),
    )
    .cause(format!("its schema is {found}, this program knows up to {known}"))
    .hint("nothing was changed; use the newer program")
}

/// Another user could have put it there.
pub(crate) fn foreign(path: &Path, cause: impl Into<String>) -> Problem {
    Problem::cannot_build(Code::LedgerForeign, format!("will not use {path:?} for the ledger"))
        .cause(cause.into())
}

/// There is no ledger.
pub(crate) fn missing(path: &Path) -> Problem {
    Problem::cannot_build(Code::LedgerMissing, format!("there is no ledger in {path:?}"))
        .hint("it is made with the first recorded run")
}

/// No space left.
pub(crate) fn full(path: &Path, cause: impl std::fmt::Display) -> Problem {
    Problem::cannot_build(Code::LedgerFull, format!("no room for the ledger in {path:?}"))
        .cause(cause)
        .hint("nothing was half-written; free some space and it works again")
}

/// Another process holds it too long.
pub(crate) fn busy(path: &Path, cause: impl std::fmt::Display) -> Problem {
    Problem::cannot_build(Code::LedgerBusy, format!("another process holds the ledger in {path:?}"))
        .cause(cause)
}

/// A failed file operation, with the kernel's errno.
pub(crate) fn from_errno(path: &Path, call: &str, errno: Errno) -> Problem {
    let cause = format!("{call} = {}", ringfence_sys::errno_name(errno.raw_os_error()));
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => full(path, cause),
        Errno::LOOP => foreign(path, format!("{cause}: a symbolic link where a file should be")),
        _ => unwritable(path, cause),
    }
}

/// A failed file operation of the standard library.
pub(crate) fn from_io(path: &Path, call: &str, error: &std::io::Error) -> Problem {
    match error.raw_os_error() {
        Some(code) => from_errno(path, call, Errno::from_raw_os_error(code)),
        None => unwritable(path, format!("{call}: {error}")),
    }
}

/// A failed statement, by the database's code.
pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Problem {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => full(path, error),
        // ENOSPC and EFBIG while the shared memory or the log grows come as I/O errors of these kinds.
        Some(ErrorCode::SystemIoFailure) if is_about_room(error) => full(path, error),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => busy(path, error),
        // Without a code it is a value of a type that the ledger never writes.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => corrupt(path, error),
        Some(_) => unwritable(path, error),
    }
}

fn is_about_room(error: &rusqlite::Error) -> bool {
    const WRITE: i32 = rusqlite::ffi::SQLITE_IOERR_WRITE;
    const SHM_SIZE: i32 = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
    error.sqlite_error().is_some_and(|e| e.extended_code == WRITE || e.extended_code == SHM_SIZE)
}
