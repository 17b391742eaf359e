//! The container's tree: the host's programs read-only, everything else in memory.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use ringfence_sys::{CallError, MountAttributes, Named, set_attributes};
use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use crate::container::Owner;

/// Where the binaries are inside.
pub(crate) const STAGE: &str = "/stage";

/// Shown as they are on the host, without writing.
const SYSTEM: &[&str] =
    &["bin", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "sys", "usr"];

/// Made empty, with these permissions.
const EMPTY: &[(&str, u32)] = &[
    ("dev", 0o755),
    ("dev/pts", 0o755),
    ("dev/shm", 0o1777),
    ("etc", 0o755),
    ("home", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("stage", 0o755),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];

const DEVICES: &[&str] = &["full", "null", "random", "tty", "urandom", "zero"];

/// Of `/etc`, made by us: the host's own would be about the host, or a place for attacks to write to.
const ETC_OURS: &[&str] = &[
    "cron.d",
    "group",
    "gshadow",
    "gshadow-",
    "hostname",
    "hosts",
    "passwd",
    "profile.d",
    "resolv.conf",
    "shadow",
    "shadow-",
    "sudoers",
    "sudoers.d",
    "victim",
];

/// Larger files of `/etc` are of no use to an attack or a twin.
const ETC_BYTES_MAX: u64 = 1 << 20;

/// Builds the tree below the stage's mount point and makes it the root.
pub(crate) fn build(stage: &Path, owner: Owner) -> Result<(), CallError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).named(|| "mount(\"/\", MS_REC|MS_PRIVATE)")?;
    let root = stage.join("root");
    // A full disk is one of the attacks: it must be this one.
    rustix::mount::mount("tmpfs", &root, "tmpfs", MountFlags::empty(), Some(c"mode=755,size=1g"))
        .named(|| format!("mount(tmpfs, {root:?})"))?;
    for (name, mode) in EMPTY {
        let at = root.join(name);
        std::fs::create_dir(&at).named(|| format!("mkdir({at:?})"))?;
        let mode = std::fs::Permissions::from_mode(*mode);
        std::fs::set_permissions(&at, mode).named(|| format!("chmod({at:?})"))?;
    }
    for name in SYSTEM {
        show(&Path::new("/").join(name), &root.join(name))?;
    }
    etc(&root)?;
    devices(&root)?;
    bind(stage, &root.join("stage"), true)?;
    let groups = Path::new("/sys/fs/cgroup");
    if owner == Owner::HostRoot && groups.is_dir() {
        bind(groups, &root.join("sys/fs/cgroup"), false)?;
    }
    let proc = root.join("proc");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", &proc, "proc", flags, None).named(|| "mount(proc)")?;
    rustix::process::chdir(&root).named(|| "chdir(root)")?;
    rustix::process::pivot_root(".", ".").named(|| "pivot_root(\".\", \".\")")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).named(|| "umount2(\".\", MNT_DETACH)")?;
    rustix::process::chdir("/").named(|| "chdir(\"/\")")
}

/// A directory read-only, a link as a link, nothing where there is nothing.
fn show(from: &Path, to: &Path) -> Result<(), CallError> {
    let Ok(meta) = std::fs::symlink_metadata(from) else { return Ok(()) };
    if meta.is_symlink() {
        return std::fs::read_link(from)
            .and_then(|target| symlink(target, to))
            .named(|| format!("symlink({to:?})"));
    }
    std::fs::create_dir(to).named(|| format!("mkdir({to:?})"))?;
    bind(from, to, true)
}

fn bind(from: &Path, to: &Path, read_only: bool) -> Result<(), CallError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let mount = rustix::mount::open_tree(CWD, from, flags)
        .named(|| format!("open_tree({from:?}, OPEN_TREE_CLONE)"))?;
    if read_only {
        let attributes = MountAttributes { read_only, recursive: true, ..Default::default() };
        set_attributes(&mount, attributes)?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&mount, "", CWD, to, flags).named(|| format!("move_mount({to:?})"))
}

/// Writable copies of the small files; directories as they are; and our own where the host's would not do.
fn etc(root: &Path) -> Result<(), CallError> {
    let to = root.join("etc");
    for entry in std::fs::read_dir("/etc").named(|| "readdir(/etc)")?.flatten() {
        let name = entry.file_name();
        if ETC_OURS.iter().any(|ours| name == *ours) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        match entry.metadata() {
            Ok(meta) if meta.is_file() => {
                if meta.len() <= ETC_BYTES_MAX
                    && let Ok(bytes) = std::fs::read(&from)
                {
                    std::fs::write(&to, bytes).named(|| format!("write({to:?})"))?;
                }
            }
            Ok(meta) if meta.is_dir() || meta.is_symlink() => show(&from, &to)?,
            _ => {}
        }
    }
    Ok(())
}

fn devices(root: &Path) -> Result<(), CallError> {
    let dev = root.join("dev");
    for name in DEVICES {
        let at = dev.join(name);
        std::fs::write(&at, "").named(|| format!("create({at:?})"))?;
        bind(&Path::new("/dev").join(name), &at, false)?;
    }
    let pts = dev.join("pts");
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    rustix::mount::mount(
        "devpts",
        &pts,
        "devpts",
        flags,
        Some(c"newinstance,ptmxmode=666,mode=620"),
    )
    .named(|| "mount(devpts)")?;
    for (name, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, dev.join(name)).named(|| format!("symlink({name})"))?;
    }
    Ok(())
}
