//! Attributes of mounts that are not attached yet.

use std::os::fd::{AsFd, AsRawFd};

use crate::CallError;

/// Attributes to set on a mount and, if asked, on everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "one per kernel attribute, always written by name"
)]
pub struct MountAttributes {
    /// Nothing can be written through it.
    pub read_only: bool,
    /// Device nodes on it do not work.
    pub no_devices: bool,
    /// Programs on it cannot be executed.
    pub no_exec: bool,
    /// Everything below it too.
    pub recursive: bool,
}

/// `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

const ATTR_RDONLY: u64 = 0x1;
const ATTR_NOSUID: u64 = 0x2;
const ATTR_NODEV: u64 = 0x4;
const ATTR_NOEXEC: u64 = 0x8;
const ATTR_IDMAP: u64 = 0x10_0000;

/// Sets attributes; set-user-id bits stop counting in every case.
pub fn set_attributes(mount: impl AsFd, attributes: MountAttributes) -> Result<(), CallError> {
    let mut attr = MountAttr { attr_set: ATTR_NOSUID, ..MountAttr::default() };
    if attributes.read_only {
        attr.attr_set |= ATTR_RDONLY;
    }
    if attributes.no_devices {
        attr.attr_set |= ATTR_NODEV;
    }
    if attributes.no_exec {
        attr.attr_set |= ATTR_NOEXEC;
    }
    mount_setattr(mount, &attr, attributes.recursive)
}

/// Translates owners on a detached mount by the maps of `user_namespace`. Needs privilege over the filesystem.
pub fn idmap(
    mount: impl AsFd,
    user_namespace: impl AsFd,
    recursive: bool,
) -> Result<(), CallError> {
    let userns_fd = u64::try_from(user_namespace.as_fd().as_raw_fd()).unwrap_or(u64::MAX);
    let attr = MountAttr { attr_set: ATTR_IDMAP, userns_fd, ..MountAttr::default() };
    mount_setattr(mount, &attr, recursive)
}

fn mount_setattr(mount: impl AsFd, attr: &MountAttr, recursive: bool) -> Result<(), CallError> {
    let fd = mount.as_fd().as_raw_fd();
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated literal; `attr` is a live `struct mount_attr` of the size given;
    // the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            std::mem::size_of::<MountAttr>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    let set = attr.attr_set;
    Err(CallError::last(format!("mount_setattr({fd}, attr_set={set:#x}, recursive={recursive})")))
}
