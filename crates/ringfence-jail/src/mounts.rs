//! Applies the mount table: every source and every target is a descriptor before anything is attached.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_plan::{Access, BindSource, MaskKind, Mount, Step};
use ringfence_sys::untrusted::open_beneath;
use ringfence_sys::{CallError, MountAttributes, Named, set_attributes};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::identity::clone_tree;
use crate::open::{exact, id_of};

/// Names of the masks on the new root, removed before the program starts.
const MASK_FILE: &str = ".mask-file";
const MASK_DIRECTORY: &str = ".mask-directory";
const TEXT: &str = ".text";

/// Connections that wait at a socket of the run's own root.
const LISTEN_BACKLOG: i32 = 128;

/// The root itself, once it is built.
const SEALED: MountAttributes =
    MountAttributes { read_only: true, no_devices: true, no_exec: false, recursive: false };

/// Masks and texts, where there is nothing to execute either.
const INERT: MountAttributes = MountAttributes { no_exec: true, ..SEALED };

/// The root under construction.
pub(crate) struct NewRoot {
    /// `O_PATH` to its top.
    pub(crate) fd: OwnedFd,
    /// `O_PATH` to the top of the old root, where the host's files are; `None` once it is detached.
    old: Option<OwnedFd>,
    dev: u64,
    mask_file: Option<OwnedFd>,
    mask_directory: Option<OwnedFd>,
    /// Cache: the parent of the last mount point. Neighbours come one after another.
    last_parent: Option<Parent>,
    /// Cache: the mount that names were last resolved below.
    last_root: Option<(PathBuf, OwnedFd)>,
}

/// Changes of the mounts of a namespace since this was opened.
pub(crate) struct MountEvents(OwnedFd);

impl MountEvents {
    /// Those of this process's namespace.
    pub(crate) fn open() -> Result<Self, CallError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty());
        opened.named(|| "open(\"/proc/self/mountinfo\")").map(Self)
    }

    /// Returns true if a mount came or went since the last call: see `proc_pid_mountinfo(5)`.
    pub(crate) fn have_come(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::PRI)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If that cannot be told, they may have.
        !matches!(rustix::event::poll(&mut fds, Some(&at_once)), Ok(0))
    }
}

impl AsFd for MountEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The mounts among these steps whose mount point is a file of the host, which the host may rename or remove.
pub(crate) fn movable(steps: &[Step]) -> impl Iterator<Item = &Mount> {
    let mounts =
        || steps.iter().filter_map(|step| if let Step::Mount(m) = step { Some(m) } else { None });
    let of_host =
        |mount: &Mount| matches!(mount, Mount::Bind { source: BindSource::Host { .. }, .. });
    mounts().filter(move |mount| {
        let is_below = |other: &Mount| of_host(other) && mount.at() != other.at();
        mounts().any(|other| is_below(other) && mount.at().starts_with(other.at()))
    })
}

/// A directory to mount in.
struct Parent {
    path: PathBuf,
    fd: OwnedFd,
    /// True on the new root itself, where missing mount points may be made.
    is_ours: bool,
}

/// Stops mounts from spreading between this namespace and the host's.
pub(crate) fn make_private() -> Result<(), CallError> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", flags).named(|| "mount(\"/\", MS_REC|MS_PRIVATE)")
}

impl NewRoot {
    /// An empty root in memory, which becomes the root of this process. The old root lies over it until it is detached.
    pub(crate) fn new() -> Result<Self, CallError> {
        let options = [("size", "1M"), ("nr_inodes", "1000"), ("mode", "755")];
        let options = options.map(|(key, value)| (key, value.to_owned()));
        let mount = new_filesystem("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NODEV)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let old = rustix::fs::open("/", flags, Mode::empty()).named(|| "open(\"/\")")?;
        rustix::mount::move_mount(&mount, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .named(|| "move_mount(tmpfs, \"/\")")?;
        rustix::process::fchdir(&mount).named(|| "fchdir(root)")?;
        // pivot_root(2), "pivot_root(".", ".")": the old root lands on top of the new one, where one umount finds it.
        // Lookups from "/" and from descriptors of the new root start below it.
        rustix::process::pivot_root(".", ".").named(|| "pivot_root(\".\", \".\")")?;
        let dev = rustix::fs::fstat(&mount).named(|| "fstat(root)")?.st_dev;
        // Modes below are used as written: a sticky world-writable /tmp must really be one.
        rustix::process::umask(Mode::empty());
        Ok(Self {
            fd: mount,
            old: Some(old),
            dev,
            mask_file: None,
            mask_directory: None,
            last_parent: None,
            last_root: None,
        })
    }

    /// Fails if the path of a mount that was applied some time ago leads elsewhere now.
    pub(crate) fn check_in_place(&self, mount: &Mount) -> Result<(), CallError> {
        let at = mount.at();
        let found = rustix::fs::statat(&self.fd, relative(at), AtFlags::SYMLINK_NOFOLLOW)
            .named(|| format!("stat({at:?})"))?;
        let is_in_place = match mount {
            Mount::Bind { source: BindSource::Host { id, .. }, .. } => id_of(&found) == *id,
            // All of these are on the run's own filesystem.
            Mount::Mask { .. }
            | Mount::Text { .. }
            | Mount::Bytes { .. }
            | Mount::Scratch { .. } => found.st_dev == self.dev,
            // Nothing of this kind lies on a file of the host.
            _ => false,
        };
        if is_in_place {
            return Ok(());
        }
        Err(CallError::new(format!("stat({at:?}): another file than was mounted"), Errno::STALE))
    }

    /// Forgets directories that were opened some time ago.
    pub(crate) fn forget_paths(&mut self) {
        (self.last_parent, self.last_root) = (None, None);
    }

    /// Sets its size limits; 0 means no limit.
    pub(crate) fn resize(&self, bytes_max: u64, inodes_max: u64) -> Result<(), CallError> {
        let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
        let context = rustix::mount::fspick(&self.fd, "", flags).named(|| "fspick(root)")?;
        for (key, value) in [("size", bytes_max), ("nr_inodes", inodes_max)] {
            rustix::mount::fsconfig_set_string(&context, key, value.to_string())
                .named(|| format!("fsconfig(root, {key}={value})"))?;
        }
        rustix::mount::fsconfig_reconfigure(&context).named(|| "fsconfig(root, RECONFIGURE)")
    }

    /// Applies one mount of the plan. `prepared` is the detached mount that the launcher made for it, if any.
    pub(crate) fn obey(
        &mut self,
        mount: &Mount,
        prepared: Option<OwnedFd>,
    ) -> Result<(), CallError> {
        match mount {
            Mount::Scratch { at, mode } => {
                let target = self.target(at, FileShape::Directory(*mode))?;
                // A copy of the root's own mount, so no devices and no set-user-id on it; not sealed with the root.
                attach(clone_tree(&target, at)?, &target, at)
            }
            Mount::Bind { source, at, access } => self.bind(source, at, *access, prepared),
            Mount::Directory { at, mode } => {
                self.target(at, FileShape::Directory(*mode)).map(|_| ())
            }
            Mount::Symlink { at, target } => {
                let (parent, name, _) = self.parent(at)?;
                rustix::fs::symlinkat(target, parent, name)
                    .named(|| format!("symlinkat({target:?}, {at:?})"))
            }
            Mount::Text { at, text } => self.content(at, text.as_bytes()),
            Mount::Bytes { at, bytes } => self.content(at, bytes),
            Mount::Device { at } => {
                let target = self.target(at, FileShape::File)?;
                let flags = OpenTreeFlags::OPEN_TREE_CLONE
                    | OpenTreeFlags::OPEN_TREE_CLOEXEC
                    | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
                let node = rustix::mount::open_tree(self.old()?, relative(at), flags)
                    .named(|| format!("open_tree({at:?}, OPEN_TREE_CLONE)"))?;
                attach(node, &target, at)
            }
            Mount::Devpts { at } => {
                let target = self.target(at, FileShape::Directory(0o755))?;
                let options = [("ptmxmode", "666".to_owned()), ("mode", "620".to_owned())];
                let flags = MountAttrFlags::MOUNT_ATTR_NOEXEC;
                attach(&new_filesystem("devpts", &options, flags)?, &target, at)
            }
            Mount::Proc { at } => self.proc(at, &[]),
            Mount::ProcOfPids { at } => self.proc(at, &[("subset", "pid".to_owned())]),
            Mount::Mask { at, kind } => {
                let target = open_beneath(&self.fd, relative(at))?;
                let mask = clone_tree(self.mask(*kind)?, at)?;
                set_attributes(&mask, INERT)?;
                attach(mask, &target, at)
            }
        }
    }

    /// Listens at a path below the new root, which must be on its own filesystem. By the working directory, because an
    /// address has no descriptor to start from.
    pub(crate) fn listen(&self, at: &Path) -> Result<OwnedFd, CallError> {
        let (Some(parent), Some(name)) = (relative(at).parent(), at.file_name()) else {
            return Err(CallError::new(format!("bind({at:?})"), Errno::INVAL));
        };
        let above: Vec<&Path> = parent.ancestors().collect();
        for directory in above.into_iter().rev().filter(|path| !path.as_os_str().is_empty()) {
            match rustix::fs::mkdirat(&self.fd, directory, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(CallError::new(format!("mkdirat({directory:?})"), errno)),
            }
        }
        let directory = open_beneath(&self.fd, parent)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .named(|| "socket(AF_UNIX)")?;
        let address = SocketAddrUnix::new(name).named(|| format!("bind({at:?})"))?;
        rustix::process::fchdir(&directory).named(|| "fchdir")?;
        let bound = rustix::net::bind(&socket, &address).named(|| format!("bind({at:?})"));
        rustix::process::chdir("/").named(|| "chdir(\"/\")")?;
        bound?;
        rustix::net::listen(&socket, LISTEN_BACKLOG).named(|| format!("listen({at:?})"))?;
        Ok(socket)
    }

    fn proc(&mut self, at: &Path, options: &[(&str, String)]) -> Result<(), CallError> {
        let target = self.target(at, FileShape::Directory(0o555))?;
        let flags = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        attach(&new_filesystem("proc", options, flags)?, &target, at)
    }

    /// Takes the right to execute from a private directory.
    pub(crate) fn no_execute(&self, at: &Path) -> Result<(), CallError> {
        let mount = open_beneath(&self.fd, relative(at))?;
        let attributes = MountAttributes { no_exec: true, ..MountAttributes::default() };
        set_attributes(&mount, attributes)
    }

    /// Makes the root itself read-only; private directories on it are mounts of their own and stay writable.
    pub(crate) fn seal(&mut self) -> Result<(), CallError> {
        // The masks are mounts of these files; their names are not needed any more. (Unmounting anything here would
        // cost an RCU grace period, so the files themselves are never mounted over.)
        for (mask, name, flags) in [
            (self.mask_file.take(), MASK_FILE, AtFlags::empty()),
            (self.mask_directory.take(), MASK_DIRECTORY, AtFlags::REMOVEDIR),
        ] {
            if mask.is_some() {
                rustix::fs::unlinkat(&self.fd, name, flags).named(|| "unlinkat(mask)")?;
            }
        }
        set_attributes(&self.fd, SEALED)
    }

    /// An empty file or directory that no process can open; read-only mounts of it are the masks.
    fn mask(&mut self, kind: MaskKind) -> Result<&OwnedFd, CallError> {
        let (slot, name) = match kind {
            MaskKind::File => (&mut self.mask_file, MASK_FILE),
            MaskKind::Directory => (&mut self.mask_directory, MASK_DIRECTORY),
        };
        if slot.is_none() {
            let name = Path::new(name);
            match kind {
                MaskKind::File => drop(create(&self.fd, name, Mode::empty(), b"")?),
                MaskKind::Directory => {
                    rustix::fs::mkdirat(&self.fd, name, Mode::empty()).named(|| "mkdirat(mask)")?;
                }
            }
            *slot = Some(open_beneath(&self.fd, name)?);
        }
        slot.as_ref().ok_or_else(|| CallError::new("mask", Errno::INVAL))
    }

    fn old(&self) -> Result<&OwnedFd, CallError> {
        self.old.as_ref().ok_or_else(|| CallError::new("the old root is detached", Errno::INVAL))
    }

    /// Detaches the old root, which lies on top of this one.
    pub(crate) fn detach_old(&mut self) -> Result<(), CallError> {
        self.old()?;
        self.old = None;
        rustix::process::fchdir(&self.fd).named(|| "fchdir(root)")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).named(|| "umount2(\".\", MNT_DETACH)")?;
        rustix::process::chdir("/").named(|| "chdir(\"/\")")
    }

    /// A small read-only file with this content.
    fn content(&mut self, at: &Path, content: &[u8]) -> Result<(), CallError> {
        let target = self.target(at, FileShape::File)?;
        let mode = Mode::from_raw_mode(0o444);
        let file = create(&self.fd, Path::new(TEXT), mode, content)?;
        let file = clone_tree(&file, at)?;
        set_attributes(&file, INERT)?;
        attach(&file, &target, at)?;
        // The mount keeps the file; its name is free for the next one.
        rustix::fs::unlinkat(&self.fd, TEXT, AtFlags::empty()).named(|| "unlinkat(text)")
    }

    fn bind(
        &mut self,
        source: &BindSource,
        at: &Path,
        access: Access,
        prepared: Option<OwnedFd>,
    ) -> Result<(), CallError> {
        let (mount, target) = match source {
            BindSource::Host { path, id, .. } => {
                let (mount, kind) = if let Some(mount) = prepared {
                    let stat = rustix::fs::fstat(&mount).named(|| "fstat(source)")?;
                    (mount, FileType::from_raw_mode(stat.st_mode))
                } else {
                    let file = open_beneath(self.old()?, relative(path))?;
                    let (file, kind) = exact(file, path, *id)?;
                    (clone_tree(&file, path)?, kind)
                };
                let target = self.target(at, FileShape::like(kind))?;
                (mount, target)
            }
            BindSource::Beneath { root, path } => {
                let target = open_beneath(self.mounted(root)?, path)?;
                let mount = clone_tree(&target, at)?;
                if access == Access::ReadWrite {
                    // A copy of a mount that has every attribute it needs.
                    return attach(&mount, &target, at);
                }
                (mount, target)
            }
        };
        let attributes = MountAttributes {
            read_only: access == Access::ReadOnly,
            no_devices: true,
            no_exec: false,
            recursive: true,
        };
        set_attributes(&mount, attributes)?;
        attach(&mount, &target, at)
    }

    /// Opens a mount made earlier, to resolve names below it.
    fn mounted(&mut self, root: &Path) -> Result<&OwnedFd, CallError> {
        if self.last_root.as_ref().is_none_or(|(path, _)| path != root) {
            self.last_root = Some((root.to_owned(), open_beneath(&self.fd, relative(root))?));
        }
        let none = || CallError::new(format!("open({root:?})"), Errno::INVAL);
        self.last_root.as_ref().map(|(_, fd)| fd).ok_or_else(none)
    }

    /// The mount point, created if it is missing on the new root. On a bound part of the host nothing is created.
    fn target(&mut self, at: &Path, shape: FileShape) -> Result<OwnedFd, CallError> {
        let (parent, name, is_ours) = self.parent(at)?;
        if !is_ours {
            return open_beneath(parent, name).map_err(|e| match e.errno {
                Errno::NOENT => {
                    CallError::new(format!("mkdir({at:?}) outside the new root"), Errno::XDEV)
                }
                _ => e,
            });
        }
        // Most are missing, so a check first would cost one call more.
        let made = match shape {
            FileShape::Directory(mode) => {
                rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode))
                    .named(|| format!("mkdirat({at:?})"))
            }
            FileShape::File => match create(parent, name, Mode::from_raw_mode(0o444), b"") {
                Ok(file) => return Ok(file),
                Err(error) => Err(error),
            },
        };
        match made {
            Err(e) if e.errno != Errno::EXIST => Err(e),
            _ => open_beneath(parent, name),
        }
    }

    /// The parent directory of `at`, made on our own root where missing, the last name, and whether it is on our own
    /// root.
    fn parent<'a>(&'a mut self, at: &'a Path) -> Result<(&'a OwnedFd, &'a Path, bool), CallError> {
        let name = at.file_name().map(Path::new);
        let name = name.ok_or_else(|| CallError::new(format!("mount at {at:?}"), Errno::INVAL))?;
        let parent = at.parent().unwrap_or(Path::new("/"));
        if parent == Path::new("/") {
            return Ok((&self.fd, name, true));
        }
        if self.last_parent.as_ref().is_none_or(|last| last.path != parent) {
            let fd = match open_beneath(&self.fd, relative(parent)) {
                Err(e) if e.errno == Errno::NOENT => {
                    self.target(parent, FileShape::Directory(0o755))?
                }
                other => other?,
            };
            let is_ours = rustix::fs::fstat(&fd).named(|| "fstat")?.st_dev == self.dev;
            self.last_parent = Some(Parent { path: parent.to_owned(), fd, is_ours });
        }
        let nowhere = || CallError::new(format!("mount at {at:?}"), Errno::INVAL);
        let Parent { fd, is_ours, .. } = self.last_parent.as_ref().ok_or_else(nowhere)?;
        Ok((fd, name, *is_ours))
    }
}

/// The kind of file to make for a missing mount point.
#[derive(Clone, Copy)]
enum FileShape {
    Directory(u32),
    File,
}

impl FileShape {
    fn like(source: FileType) -> Self {
        if source == FileType::Directory { Self::Directory(0o755) } else { Self::File }
    }
}

fn create(dir: impl AsFd, name: &Path, mode: Mode, text: &[u8]) -> Result<OwnedFd, CallError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, mode)
        .named(|| format!("openat({name:?}, O_CREAT)"))?;
    if !text.is_empty() {
        rustix::io::write(&file, text).named(|| format!("write({name:?})"))?;
    }
    Ok(file)
}

pub(crate) fn new_filesystem(
    kind: &str,
    options: &[(&str, String)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, CallError> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)
        .named(|| format!("fsopen({kind:?})"))?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(&context, *key, value.as_str())
            .named(|| format!("fsconfig({kind:?}, {key}={value})"))?;
    }
    rustix::mount::fsconfig_create(&context).named(|| format!("fsconfig({kind:?}, CREATE)"))?;
    let attributes = attributes | MountAttrFlags::MOUNT_ATTR_NOSUID;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .named(|| format!("fsmount({kind:?})"))
}

fn attach(mount: impl AsFd, target: impl AsFd, at: &Path) -> Result<(), CallError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", target, "", flags)
        .named(|| format!("move_mount(…, {at:?})"))
}

fn relative(at: &Path) -> &Path {
    at.strip_prefix("/").ok().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
