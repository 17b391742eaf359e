//! Kind of a file system, and the bytes in use on it.

use std::os::fd::AsFd;

use rustix::fs::FsWord;
use rustix::io::Errno;

/// Number of tmpfs in statfs(2).
pub const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// Returns the bytes in use on the file system of an open file.
pub fn used_bytes(fd: impl AsFd) -> Result<u64, Errno> {
    let fs = rustix::fs::fstatvfs(fd)?;
    Ok(fs.f_blocks.saturating_sub(fs.f_bfree).saturating_mul(fs.f_frsize))
}
