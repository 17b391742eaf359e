//! Memory files: bytes in a descriptor without a name.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};

use crate::{CallError, Named as _};

/// Writes `bytes` to a new memory file, which is read from its beginning. `name` is what `/proc` shows of it.
pub fn memory_file(name: &str, bytes: &[u8]) -> Result<OwnedFd, CallError> {
    write(name, bytes, MemfdFlags::CLOEXEC)
}

/// Writes `bytes` to a new memory file that cannot be changed any more.
pub fn sealed_memory_file(name: &str, bytes: &[u8]) -> Result<OwnedFd, CallError> {
    let file = write(name, bytes, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).named(|| "fcntl(F_ADD_SEALS)")?;
    Ok(file)
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

    #[test]
    fn a_memory_file_holds_its_bytes_and_a_sealed_one_keeps_them() {
        let bytes = vec![7u8; 3 << 20];
        for (file, is_sealed) in [
            (memory_file("plain", &bytes).unwrap(), false),
            (sealed_memory_file("sealed", &bytes).unwrap(), true),
        ] {
            let mut read = vec![0u8; bytes.len() + 1];
            let mut n = 0;
            loop {
                match rustix::io::read(&file, &mut read[n..]).unwrap() {
                    0 => break,
                    more => n += more,
                }
            }
            assert!(read[..n] == bytes[..]);
            let changed = rustix::io::pwrite(&file, b"x", 0);
            assert_eq!(changed, if is_sealed { Err(Errno::PERM) } else { Ok(1) });
        }
    }
}
