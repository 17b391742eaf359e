//! The list of segments that make up the index, replaced as a whole by renaming: a crash leaves the old list or the new.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use ringfence_sys::untrusted;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::IndexError;
use super::codec::{Put, Reader, corrupt, frame, unframe};

const MAGIC: u64 = u64::from_le_bytes(*b"RFSINDEX");

/// Increases with every change of terms, chunks or the format: an index of another number is built anew.
const VERSION: u64 = 1;

const NAME: &str = "manifest";
const NAME_LOCK: &str = "lock";

/// Greatest manifest: bits and stamps of some million files.
const BYTES_MAX: u64 = 64 << 20;

/// Maximum number of segments; merging keeps it far below.
const SEGMENTS_MAX: usize = 4096;

/// Names of the directory that a sweep looks at.
const NAMES_MAX: u32 = 1 << 16;

/// State of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentState {
    pub(super) id: u64,
    /// Length of its file.
    pub(super) len: u64,
    /// One bit for each file that is gone or was indexed again.
    pub(super) dead: Vec<u8>,
    /// Files whose time changed but whose content did not.
    pub(super) stamps: BTreeMap<u32, u64>,
}

impl SegmentState {
    pub(super) fn is_dead(&self, file: u32) -> bool {
        self.dead.get(file as usize / 8).is_some_and(|byte| byte >> (file % 8) & 1 == 1)
    }

    pub(super) fn kill(&mut self, file: u32) {
        let at = file as usize / 8;
        if self.dead.len() <= at {
            self.dead.resize(at + 1, 0);
        }
        self.dead[at] |= 1 << (file % 8);
    }

    pub(super) fn n_dead(&self) -> u32 {
        self.dead.iter().map(|byte| byte.count_ones()).sum()
    }
}

/// The segments of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) next_id: u64,
    pub(super) segments: Vec<SegmentState>,
}

impl Manifest {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(MAGIC);
        out.put_varint(VERSION);
        out.put_varint(self.next_id);
        out.put_varint(self.segments.len() as u64);
        for segment in &self.segments {
            out.put_varint(segment.id);
            out.put_varint(segment.len);
            out.put_bytes(&segment.dead);
            out.put_varint(segment.stamps.len() as u64);
            for (file, stamp) in &segment.stamps {
                out.put_varint(u64::from(*file));
                out.put_varint(*stamp);
            }
        }
        frame(&out)
    }

    fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        const WHAT: &str = "manifest";
        let mut reader = Reader::new(unframe(bytes, WHAT)?, WHAT);
        if reader.u64()? != MAGIC || reader.varint()? != VERSION {
            return Err(corrupt("manifest version"));
        }
        let next_id = reader.varint()?;
        let n_segments = reader.size()?;
        if n_segments > SEGMENTS_MAX {
            return Err(corrupt(WHAT));
        }
        let mut segments = Vec::new();
        for _ in 0..n_segments {
            let (id, len) = (reader.varint()?, reader.varint()?);
            let dead = reader.bytes()?.to_vec();
            let n_stamps = reader.size()?;
            let mut stamps = BTreeMap::new();
            for _ in 0..n_stamps {
                stamps.insert(reader.u32()?, reader.varint()?);
            }
            segments.push(SegmentState { id, len, dead, stamps });
        }
        Ok(Self { next_id, segments })
    }
}

/// The directory of an index.
#[derive(Debug)]
pub(super) struct Store {
    dir: OwnedFd,
}

/// Held by the one process and thread that changes the index.
#[derive(Debug)]
pub(super) struct WriteLock {
    _file: OwnedFd,
}

impl Store {
    /// Opens the directory, or creates it.
    pub(super) fn open(path: &Path) -> Result<Self, IndexError> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Self { dir: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// The manifest, or an empty one if there is none.
    pub(super) fn manifest(&self) -> Result<Manifest, IndexError> {
        self.read(NAME, BYTES_MAX)?
            .map_or_else(|| Ok(Manifest::default()), |b| Manifest::decode(&b))
    }

    /// Replaces the manifest. Nothing is flushed to the disk: after a crash of the machine a file may be incomplete, its
    /// checksums tell, and the index is rebuilt. A crash of the process loses nothing that was renamed.
    pub(super) fn commit(&self, manifest: &Manifest) -> Result<(), IndexError> {
        self.replace(NAME, &manifest.encode())
    }

    /// Replaces a file as a whole.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), IndexError> {
        let new = format!("{name}.new");
        self.unlink(&new)?;
        self.create(&new)?.write_all(bytes)?;
        rustix::fs::renameat(&self.dir, &new, &self.dir, name)?;
        Ok(())
    }

    /// Reads a file; `None` if it is not there.
    pub(super) fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, IndexError> {
        match untrusted::read_beneath(&self.dir, Path::new(name), bytes_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(untrusted::ReadError::Call(error)) => Err(error.errno.into()),
            Err(_) => Err(corrupt("file")),
        }
    }

    /// Removes the manifest: the next update starts from nothing.
    pub(super) fn forget(&self) -> Result<(), IndexError> {
        self.unlink(NAME)
    }

    fn create(&self, name: &str) -> Result<File, IndexError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(fd))
    }

    fn unlink(&self, name: &str) -> Result<(), IndexError> {
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a segment and returns the length of its file.
    pub(super) fn write_segment(
        &self,
        id: u64,
        write: impl FnOnce(BufWriter<File>) -> Result<BufWriter<File>, IndexError>,
    ) -> Result<u64, IndexError> {
        let name = segment_name(id);
        self.unlink(&name)?;
        let out = write(BufWriter::with_capacity(256 << 10, self.create(&name)?))?;
        let file = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        Ok(file.metadata()?.len())
    }

    pub(super) fn open_segment(&self, id: u64) -> Result<File, IndexError> {
        match untrusted::open_file_beneath(&self.dir, Path::new(&segment_name(id))) {
            Ok(file) => Ok(file),
            Err(error) if error.is_missing() => Err(IndexError::SegmentMissing),
            Err(untrusted::ReadError::Call(error)) => Err(error.errno.into()),
            Err(_) => Err(corrupt("segment")),
        }
    }

    /// Takes the lock of writers. Does not wait.
    pub(super) fn lock(&self) -> Result<WriteLock, IndexError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.dir, NAME_LOCK, flags, Mode::RUSR | Mode::WUSR)?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(corrupt("lock"));
        }
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(WriteLock { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(IndexError::Busy),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes segments that the manifest does not list: left by a crash, or merged.
    pub(super) fn sweep(&self, manifest: &Manifest) -> Result<(), IndexError> {
        let budget = ringfence_sys::Budget::entries(NAMES_MAX);
        let mut gone = Vec::new();
        // Opened anew: a listing goes on where the descriptor's last one ended.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.dir, ".", flags, Mode::empty())?;
        let listed = untrusted::list(&dir, &budget, |name, _| {
            if let Some(name) = name.to_str()
                && let Some(id) = segment_id(name)
                && !manifest.segments.iter().any(|segment| segment.id == id)
            {
                gone.push(name.to_owned());
            }
            std::ops::ControlFlow::Continue(())
        });
        for name in gone {
            self.unlink(&name)?;
        }
        listed.map_err(|error| error.errno.into())
    }
}

fn segment_name(id: u64) -> String {
    format!("segment-{id:016x}")
}

fn segment_id(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("segment-")?, 16).ok()
}
