//! Reads a range of a regular file, up to a limit. Trusts only the length it read: files grow, shrink, or report 0.

use std::ffi::OsStr;

use ringfence_spec::{Problem, hex};
use sha2::{Digest as _, Sha256};

use super::path::GuestPath;
use super::{Workspace, problems};

/// Bytes per read(2).
const CHUNK_BYTES: usize = 64 << 10;

/// Reads beyond this offset return nothing.
const OFFSET_MAX: u64 = 1 << 62;

/// A range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Bytes from the offset on.
    pub bytes: Vec<u8>,
    /// Size of the file after the read.
    pub total_bytes: u64,
    /// True if the file continues after `bytes`.
    pub more: bool,
    /// SHA-256 of `bytes`, in hexadecimal.
    pub sha256: String,
    /// Text or binary.
    pub kind: ContentKind,
}

/// Text or binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    /// UTF-8 without NUL; a character may be split at either end of a range.
    Text,
    /// Anything else.
    Binary,
}

impl Workspace {
    /// Reads `limit` bytes from `offset` on, at most what the rules allow. An offset past the end reads nothing.
    pub fn read(
        &self,
        path: impl AsRef<OsStr>,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<Contents, Problem> {
        let act = "read";
        let path = GuestPath::parse(act, path.as_ref())?;
        self.check_may_read(act, &path)?;
        let (fd, stat) = self.open_file(act, &path)?;
        let limit = limit.unwrap_or(u64::MAX).min(self.rules.read_bytes_max);
        let fail = |errno| problems::refused_by_kernel(act, &path.to_string(), errno);

        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let expected = limit.min(size.saturating_sub(offset));
        let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
        let mut chunk = vec![0; CHUNK_BYTES];
        // No file reaches this far, and pread(2) refuses ranges that end past the largest signed number.
        let mut ended = offset > OFFSET_MAX;
        while (bytes.len() as u64) < limit && !ended {
            let left = usize::try_from(limit - bytes.len() as u64).unwrap_or(usize::MAX);
            let ask = left.min(CHUNK_BYTES);
            match rustix::io::pread(&fd, &mut chunk[..ask], offset + bytes.len() as u64) {
                Ok(0) => ended = true,
                Ok(n) => bytes.extend_from_slice(&chunk[..n]),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        let end = offset.saturating_add(bytes.len() as u64);
        let size = u64::try_from(rustix::fs::fstat(&fd).map_err(fail)?.st_size).unwrap_or(0);
        let kind = content_kind(&bytes);
        let sha256 = hex(&Sha256::digest(&bytes));
        // The file may have grown after its end was reached: bytes that were not there then are not reported as more.
        let total_bytes = size.max(if bytes.is_empty() { 0 } else { end });
        Ok(Contents { more: !ended && total_bytes > end, bytes, total_bytes, sha256, kind })
    }
}

/// A range may start and end within a character, so text may too.
pub(super) fn content_kind(bytes: &[u8]) -> ContentKind {
    let bytes = &bytes[crate::text::character_rest(bytes)..];
    let text = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(e) => e.error_len().is_none(),
    };
    if text && !bytes.contains(&0) { ContentKind::Text } else { ContentKind::Binary }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_bytes_also_when_a_character_is_cut() {
        let word = "grün日本".as_bytes();
        for start in 0..word.len() {
            for end in start..=word.len() {
                assert_eq!(content_kind(&word[start..end]), ContentKind::Text, "{start}..{end}");
            }
        }
        for bytes in [&b"a\0b"[..], b"\xff\xfe", b"ab\xc3cd", b"\x80\x80\x80\x80"] {
            assert_eq!(content_kind(bytes), ContentKind::Binary, "{}", bytes.escape_ascii());
        }
    }
}
