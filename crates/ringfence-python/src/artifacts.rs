//! Files a run left in its directory, reached by descriptor: no link is followed, nothing that is not a plain file opened.

use std::collections::VecDeque;
use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_jail::open_beneath;
use ringfence_spec::Artifact;
use ringfence_sys::{CallError, Named};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// More files than this are not listed.
const FILES_MAX: usize = 1000;

/// Directories below each other.
const DEPTH_MAX: usize = 16;

/// A run's directory after its end.
#[derive(Debug)]
pub struct Artifacts {
    workspace: OwnedFd,
}

impl Artifacts {
    pub(crate) fn new(workspace: OwnedFd) -> Self {
        Self { workspace }
    }

    /// The plain files in it, by name.
    pub fn list(&self) -> Vec<Artifact> {
        let mut list = Vec::new();
        let mut pending: VecDeque<(PathBuf, usize)> = VecDeque::from([(PathBuf::new(), 0)]);
        while let Some((dir, depth)) = pending.pop_front() {
            let Ok(entries) = self.entries(&dir) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let path = dir.join(std::ffi::OsStr::from_bytes(name));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let Ok(stat) = rustix::fs::statat(&self.workspace, &path, flags) else { continue };
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile if list.len() < FILES_MAX => list.push(Artifact {
                        path: path.to_string_lossy().into_owned(),
                        bytes: u64::try_from(stat.st_size).unwrap_or(0),
                        media_type: media_type(&path).to_owned(),
                    }),
                    FileType::Directory if depth < DEPTH_MAX && pending.len() < FILES_MAX => {
                        pending.push_back((path, depth + 1));
                    }
                    _ => {}
                }
            }
        }
        list.sort_by(|a, b| a.path.cmp(&b.path));
        list
    }

    fn entries(&self, dir: &Path) -> Result<rustix::fs::Dir, CallError> {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let place = open_beneath(&self.workspace, dir)?;
        let dir = reopen(&place, OFlags::RDONLY | OFlags::DIRECTORY)?;
        rustix::fs::Dir::new(dir).named(|| "fdopendir")
    }

    /// The content of one of them, up to a bound.
    pub fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, CallError> {
        let file = self.open_file(path)?;
        let mut content = Vec::new();
        file.take(bytes_max).read_to_end(&mut content).named(|| format!("read({path:?})"))?;
        Ok(content)
    }

    /// A reader of one of them.
    pub fn open_file(&self, path: &Path) -> Result<std::fs::File, CallError> {
        let place = open_beneath(&self.workspace, path)?;
        let stat = rustix::fs::fstat(&place).named(|| format!("fstat({path:?})"))?;
        // A FIFO would make an open wait, a device would do what devices do.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(CallError::new(format!("open({path:?}): no plain file"), Errno::NXIO));
        }
        reopen(&place, OFlags::RDONLY).map(Into::into)
    }

    /// Copies every file to a directory of the host's, never through a link of either side.
    pub fn copy_to(&self, dir: &Path) -> Result<(), CallError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            rustix::fs::open(dir, flags, Mode::empty()).named(|| format!("open({dir:?})"))?;
        for artifact in self.list() {
            let path = Path::new(&artifact.path);
            let mut source = self.open_file(path)?;
            let parent = make_parents(&root, path)?;
            let name = path.file_name().unwrap_or_default();
            // Under another name first: a link that has the real one is replaced, not followed.
            let partial = format!(".ringfence-{}", std::process::id());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o644);
            let _ = rustix::fs::unlinkat(&parent, &partial, AtFlags::empty());
            let target = rustix::fs::openat(&parent, &partial, flags, mode)
                .named(|| format!("openat({partial:?}, O_CREAT|O_EXCL)"))?;
            std::io::copy(&mut source, &mut std::fs::File::from(target))
                .named(|| format!("copy({path:?})"))?;
            rustix::fs::renameat(&parent, &partial, &parent, name)
                .named(|| format!("renameat({path:?})"))?;
        }
        Ok(())
    }
}

/// The directory that `path` is in below `root`, made where it is missing.
fn make_parents(root: &OwnedFd, path: &Path) -> Result<OwnedFd, CallError> {
    let mut at = root.try_clone().named(|| "dup")?;
    for name in path.parent().unwrap_or(Path::new("")).components() {
        let name: &Path = name.as_ref();
        match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(CallError::new(format!("mkdirat({path:?})"), errno)),
        }
        at = open_beneath(&at, name)?;
    }
    Ok(at)
}

/// Another descriptor, with these rights, for what an `O_PATH` one stands for.
fn reopen(place: &OwnedFd, flags: OFlags) -> Result<OwnedFd, CallError> {
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty())
        .named(|| format!("open({path:?})"))
}

/// What a file's name says it is.
fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "jsonl" => "application/jsonl",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "md" => "text/markdown",
        "xml" => "application/xml",
        "txt" | "log" => "text/plain",
        "py" => "text/x-python",
        "parquet" => "application/vnd.apache.parquet",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "sqlite" | "db" => "application/vnd.sqlite3",
        _ => "application/octet-stream",
    }
}
