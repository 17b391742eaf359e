//! Memory files: bytes in a descriptor without a name.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

use crate::{CallError, Named as _};

/// Writes `bytes` to a new memory file, which is read from its beginning. `name` is what `/proc` shows of it.
pub fn memory_file(name: &str, bytes: &[u8]) -> Result<OwnedFd, CallError> {
    write(name, bytes, MemfdFlags::CLOEXEC)
}

/// A memory file that cannot be written to. Dropping it empties the file and frees its memory, also if other processes still
/// have a descriptor of it.
#[derive(Debug)]
pub struct RevocableMemoryFile(OwnedFd);

impl RevocableMemoryFile {
    /// Makes the file.
    pub fn new(name: &str, bytes: &[u8]) -> Result<Self, CallError> {
        let file = write(name, bytes, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        // Not `F_SEAL_SHRINK`, and no seal can be added that would keep the memory.
        let seals = SealFlags::SEAL | SealFlags::GROW | SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&file, seals).named(|| "fcntl(F_ADD_SEALS)")?;
        Ok(Self(file))
    }
}

impl AsFd for RevocableMemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for RevocableMemoryFile {
    fn drop(&mut self) {
        let _ = rustix::fs::ftruncate(&self.0, 0);
    }
}

fn write(name: &str, bytes: &[u8], flags: MemfdFlags) -> Result<OwnedFd, CallError> {
    let file = rustix::fs::memfd_create(name, flags).named(|| format!("memfd_create({name})"))?;
    let mut at = 0;
    while at < bytes.len() {
        at += rustix::io::pwrite(&file, &bytes[at..], at as u64)
            .named(|| format!("pwrite({name})"))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn content(file: impl AsFd, n_bytes: usize) -> Vec<u8> {
        let mut read = vec![0u8; n_bytes + 1];
        let mut n = 0;
        loop {
            match rustix::io::pread(&file, &mut read[n..], n as u64).unwrap() {
                0 => break,
                more => n += more,
            }
        }
        read.truncate(n);
        read
    }

    #[test]
    fn a_memory_file_holds_its_bytes() {
        let bytes = vec![7u8; 3 << 20];
        let file = memory_file("plain", &bytes).unwrap();
        assert!(content(&file, bytes.len()) == bytes);
        assert_eq!(rustix::io::pwrite(&file, b"x", 0), Ok(1));
    }

    #[test]
    fn a_revocable_memory_file_is_never_written_to_and_empty_in_the_end() {
        let bytes = vec![7u8; 3 << 20];
        let file = RevocableMemoryFile::new("revocable", &bytes).unwrap();
        let kept = file.as_fd().try_clone_to_owned().unwrap();
        assert!(content(&kept, bytes.len()) == bytes);
        assert_eq!(rustix::io::pwrite(&kept, b"x", 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&kept, 4 << 20), Err(Errno::PERM));
        // Another holder cannot keep the memory.
        let sealed = rustix::fs::fcntl_add_seals(&kept, SealFlags::SHRINK);
        assert_eq!(sealed, Err(Errno::PERM));
        drop(file);
        assert!(content(&kept, 0).is_empty());
        assert_eq!(rustix::fs::fstat(&kept).unwrap().st_blocks, 0);
    }
}
