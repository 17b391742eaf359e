//! Opening paths so that the descriptor is the proof: no link followed, the file that was surveyed or nothing.

use std::os::fd::OwnedFd;
use std::path::Path;

use ringfence_plan::FileId;
use ringfence_sys::untrusted::open_absolute;
use ringfence_sys::{CallError, Named};
use rustix::fs::{FileType, FsWord, Stat};
use rustix::io::Errno;

/// Opens a canonical absolute path without following any link and checks that it is still the file `id`. Returns its
/// type too.
pub(crate) fn open_exact(path: &Path, id: FileId) -> Result<(OwnedFd, FileType), CallError> {
    exact(open_absolute(path)?, path, id)
}

/// Checks that an opened path is the file `id`, and returns its type too.
pub(crate) fn exact(
    fd: OwnedFd,
    path: &Path,
    id: FileId,
) -> Result<(OwnedFd, FileType), CallError> {
    let stat = rustix::fs::fstat(&fd).named(|| "fstat")?;
    if id_of(&stat) == id {
        return Ok((fd, FileType::from_raw_mode(stat.st_mode)));
    }
    // The file was replaced between the survey and now.
    Err(CallError::new(format!("open({path:?}): another file than was surveyed"), Errno::STALE))
}

/// Returns true if a descriptor's file is on one of these file systems, given with their numbers in statfs(2)
/// (`linux/magic.h`, or the driver's source).
pub(crate) fn is_on(fd: impl std::os::fd::AsFd, types: &[(&str, FsWord)]) -> bool {
    let is_one = |of: FsWord| types.iter().any(|(_, f_type)| *f_type == of);
    rustix::fs::fstatfs(fd).is_ok_and(|fs| is_one(fs.f_type))
}

pub(crate) fn id_of(stat: &Stat) -> FileId {
    FileId { dev: stat.st_dev, ino: stat.st_ino }
}

/// The identity of a descriptor's file.
pub(crate) fn file_id(fd: impl std::os::fd::AsFd) -> Result<FileId, CallError> {
    rustix::fs::fstat(fd).named(|| "fstat").map(|stat| id_of(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchanged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("f");
        std::fs::write(&path, "").unwrap();
        let id = file_id(open_absolute(&path).unwrap()).unwrap();
        assert!(open_exact(&path, id).is_ok());
        let other = FileId { ino: id.ino + 1, ..id };
        assert_eq!(open_exact(&path, other).unwrap_err().errno, Errno::STALE);
    }
}
