//! Sends plans to a process that was forked before them: serialized to a memory file, sent as a descriptor.

use std::os::fd::OwnedFd;

use ringfence_sys::{CallError, Named};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum size of a serialized plan; arguments and environment make up most of it.
const BYTES_MAX: u64 = 16 << 20;

/// Serializes a value to a descriptor. `None` if it cannot be serialized, as paths that are not text.
pub(crate) fn write(orders: &impl Serialize) -> Result<Option<OwnedFd>, CallError> {
    write_behind(Vec::new(), orders)
}

/// Serializes a value behind bytes that can be read alone.
pub(crate) fn write_behind(
    first: Vec<u8>,
    orders: &impl Serialize,
) -> Result<Option<OwnedFd>, CallError> {
    let Ok(bytes) = postcard::to_extend(orders, first) else { return Ok(None) };
    ringfence_sys::memory_file("orders", &bytes).map(Some)
}

/// Deserializes it.
pub(crate) fn read<T: DeserializeOwned>(fd: &OwnedFd) -> Result<T, CallError> {
    read_behind(fd, 0)
}

/// Deserializes a value behind so many bytes.
pub(crate) fn read_behind<T: DeserializeOwned>(fd: &OwnedFd, from: u32) -> Result<T, CallError> {
    let size = rustix::fs::fstat(fd).named(|| "fstat(orders)")?.st_size;
    let end = u64::try_from(size).map_err(|_| nonsense())?;
    read_part(fd, u64::from(from)..end)
}

/// Deserializes the value in these bytes. The others are not read.
pub(crate) fn read_part<T: DeserializeOwned>(
    fd: &OwnedFd,
    part: std::ops::Range<u64>,
) -> Result<T, CallError> {
    let size = part.end.checked_sub(part.start).filter(|n| *n <= BYTES_MAX).ok_or_else(nonsense)?;
    let mut bytes = vec![0u8; usize::try_from(size).map_err(|_| nonsense())?];
    let mut at = 0;
    while at < bytes.len() {
        let from = part.start + at as u64;
        match rustix::io::pread(fd, &mut bytes[at..], from).named(|| "pread(orders)")? {
            0 => return Err(nonsense()),
            n => at += n,
        }
    }
    postcard::from_bytes(&bytes).map_err(|_| nonsense())
}

fn nonsense() -> CallError {
    CallError::new("read(orders)", Errno::PROTO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_plan::{Mount, Orders, Step};

    #[test]
    fn orders_arrive_as_they_were_written() {
        let orders = Orders {
            setup: vec![
                Step::CloseDescriptors,
                Step::Mount(Mount::Text { at: "/etc/hosts".into(), text: "x".into() }),
            ],
            argv: vec!["true".into()],
            environment: vec![("A".into(), "b".into())],
            ..Orders::default()
        };
        let fd = write(&orders).unwrap().unwrap();
        assert_eq!(read::<Orders>(&fd).unwrap(), orders);
    }

    #[test]
    fn paths_that_are_not_text_are_not_written_and_nonsense_is_not_read() {
        use std::os::unix::ffi::OsStrExt;
        let cwd = std::ffi::OsStr::from_bytes(b"/caf\xe9").into();
        assert!(write(&Orders { cwd, ..Orders::default() }).unwrap().is_none());
        let fd = ringfence_sys::memory_file("x", &[0xff; 64]).unwrap();
        assert!(read::<Orders>(&fd).is_err());
    }
}
