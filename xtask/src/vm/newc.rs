//! The archive an initramfs is: cpio's `newc` format, as Documentation/driver-api/early-userspace/buffer-format.rst has it.

use std::fmt::Write as _;
use std::io::{self, Write};

/// Files, directories and links, written one after the other. Owner of everything is root.
pub(crate) struct Archive<W: Write> {
    out: W,
    n_entries: u32,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, n_entries: 0 }
    }

    pub(crate) fn directory(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.entry(path, 0o040_000 | mode, 2, 0, b"")
    }

    /// `mtime_secs` is kept, because compiled Python goes by it.
    pub(crate) fn file(
        &mut self,
        path: &str,
        mode: u32,
        mtime_secs: u32,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.entry(path, 0o100_000 | mode, 1, mtime_secs, bytes)
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, 0o120_777, 1, 0, target.as_bytes())
    }

    /// Writes the trailer; an archive without one is cut short.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.n_entries = 0;
        self.entry("TRAILER!!!", 0, 1, 0, b"")?;
        self.out.flush()
    }

    fn entry(
        &mut self,
        path: &str,
        mode: u32,
        n_links: u32,
        mtime_secs: u32,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.n_entries += 1;
        let too_large = |_| io::Error::other(format!("`{path}` is too large for an archive"));
        let size = u32::try_from(bytes.len()).map_err(too_large)?;
        let name_size = u32::try_from(path.len() + 1).map_err(too_large)?;
        // ino, mode, uid, gid, nlink, mtime, filesize, device (major, minor), rdev (major, minor), namesize, check.
        let inode = self.n_entries;
        let fields = [inode, mode, 0, 0, n_links, mtime_secs, size, 0, 0, 0, 0, name_size, 0];
        let mut head = String::from("070701");
        for field in fields {
            let _ = write!(head, "{field:08x}");
        }
        head.push_str(path);
        head.push('\0');
        self.out.write_all(head.as_bytes())?;
        self.pad(head.len())?;
        self.out.write_all(bytes)?;
        self.pad(bytes.len())
    }

    /// Every part begins at a multiple of four.
    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..written.next_multiple_of(4) - written])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_aligned_and_the_trailer_is_last() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.directory("a", 0o755).unwrap();
        archive.file("a/b", 0o644, 7, b"hello").unwrap();
        archive.symlink("c", "a/b").unwrap();
        archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let starts: Vec<usize> =
            (0..bytes.len() - 5).filter(|i| &bytes[*i..*i + 6] == b"070701").collect();
        assert_eq!(starts.len(), 4);
        assert!(starts.iter().all(|s| s % 4 == 0), "{starts:?}");
        assert_eq!(&bytes[starts[1] + 110..starts[1] + 114], b"a/b\0");
        assert_eq!(&bytes[starts[1] + 116..starts[1] + 121], b"hello");
        assert!(bytes.windows(10).any(|w| w == b"TRAILER!!!"));
    }
}
