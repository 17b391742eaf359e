//! The run's user and group: writes the id maps, and for a root caller prepares mounts with translated owners.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ringfence_plan::{BindSource, Identity, Mount, Plan};
use ringfence_sys::{CallError, Named, NamespaceHolder, Namespaces};
use rustix::fs::{Mode, OFlags};
use rustix::mount::OpenTreeFlags;

use crate::open::open_exact;

/// Writes the id maps of a child that waits for them.
pub(crate) fn write_maps(pid: i32, identity: &Identity) -> Result<(), CallError> {
    let Identity { guest_uid, guest_gid, host_uid, host_gid, disk_owner } = identity;
    if disk_owner.is_none() {
        // An ordinary user may map only itself, and only after giving up setgroups: see user_namespaces(7).
        write(pid, "setgroups", "deny")?;
    }
    write(pid, "uid_map", &format!("{guest_uid} {host_uid} 1"))?;
    write(pid, "gid_map", &format!("{guest_gid} {host_gid} 1"))
}

/// A user namespace whose maps exchange the owner of the disk's files for the user of a run, and leave every other id as
/// it is.
pub(crate) struct Translation {
    identity: Identity,
    namespace: OwnedFd,
    /// The process that made the namespace; it has been told to end.
    holder: Option<NamespaceHolder>,
}

impl Translation {
    /// `None` for an identity that needs none.
    pub(crate) fn of(identity: &Identity) -> Result<Option<Self>, CallError> {
        let Some((disk_uid, disk_gid)) = identity.disk_owner else { return Ok(None) };
        let mut holder = NamespaceHolder::new(Namespaces::USER)?;
        write(holder.pid, "uid_map", &exchange(disk_uid, identity.host_uid))?;
        write(holder.pid, "gid_map", &exchange(disk_gid, identity.host_gid))?;
        let path = format!("/proc/{}/ns/user", holder.pid);
        let namespace = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .named(|| format!("open({path:?})"))?;
        holder.dismiss();
        Ok(Some(Self { identity: *identity, namespace, holder: Some(holder) }))
    }

    /// Waits for the end of the process that made the namespace. Dropping this value waits too.
    pub(crate) fn reap_holder(&mut self) {
        self.holder = None;
    }
}

/// Detached mounts with translated owners, one for each idmapped bind of the plan, in its order. `translation` is one made
/// before; a missing one is made.
pub(crate) fn prepare_mounts(
    plan: &Plan,
    translation: &mut Option<Translation>,
) -> Result<Vec<OwnedFd>, CallError> {
    let binds = plan.mounts().filter_map(|mount| match mount {
        Mount::Bind { source: BindSource::Host { path, id, idmapped: true }, .. } => {
            Some((path, *id))
        }
        _ => None,
    });
    let mut prepared = Vec::new();
    translation.take_if(|made| made.identity != plan.identity);
    for (path, id) in binds {
        if translation.is_none() {
            *translation = Translation::of(&plan.identity)?;
        }
        let Some(Translation { namespace, .. }) = translation else { break };
        let mount = clone_tree(&open_exact(path, id)?.0, path)?;
        ringfence_sys::idmap(&mount, namespace, true).map_err(|e| {
            CallError::new(format!("mount_setattr({path:?}, MOUNT_ATTR_IDMAP)"), e.errno)
        })?;
        prepared.push(mount);
    }
    Ok(prepared)
}

/// A detached copy of the mount tree at `fd`.
pub(crate) fn clone_tree(fd: impl AsFd, path: &Path) -> Result<OwnedFd, CallError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(fd, "", flags)
        .named(|| format!("open_tree({path:?}, OPEN_TREE_CLONE|AT_RECURSIVE)"))
}

/// Map lines that send `disk` to `host` and every other id below 2^32-1, except `host` itself, to itself.
fn exchange(disk: u32, host: u32) -> String {
    let (low, high) = (disk.min(host), disk.max(host));
    let mut lines = vec![format!("{disk} {host} 1")];
    for (from, to) in [(0, low), (low + 1, high), (high + 1, u32::MAX)] {
        if to > from {
            lines.push(format!("{from} {from} {}", to - from));
        }
    }
    lines.join("\n")
}

fn write(pid: i32, file: &str, text: &str) -> Result<(), CallError> {
    std::fs::write(format!("/proc/{pid}/{file}"), text)
        .named(|| format!("write(\"/proc/{pid}/{file}\", {text:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_maps_each_id_once() {
        assert_eq!(exchange(0, 7), "0 7 1\n1 1 6\n8 8 4294967287");
        assert_eq!(exchange(5, 7), "5 7 1\n0 0 5\n6 6 1\n8 8 4294967287");
    }
}
