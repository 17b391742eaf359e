//! The tree a run sees: one entry per path, parents before children, the stricter entry winning.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_spec::{CommandPreset, Policy, ProcView};

use crate::catalogue;
use crate::facts::{
    Found, HostFacts, Interception, OwnEffect, Protected, ProtectedState, Request, RootEntry,
    SshAgentFacts, SystemText, SystemTextKind, WritableRoot,
};
use crate::plan::{Access, BindSource, Identity, MaskKind, Mount, Placeholder};

/// Working directory of code and `minimal` runs.
pub(crate) const WORKSPACE: &str = "/workspace";

/// A path as a key that is ordered like a tree, parents first, by plain bytes: a slash counts as the lowest byte.
/// (`PathBuf` has the same order, but takes paths apart anew at each comparison, hundreds of times for each run.)
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TreePath(Vec<u8>);

impl TreePath {
    fn new(path: &Path) -> Self {
        let bytes = path.as_os_str().as_bytes();
        let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
        Self(bytes.iter().map(|b| if *b == b'/' { 0 } else { *b }).collect())
    }

    fn is_below_or_at(&self, other: &Self) -> bool {
        match self.0.strip_prefix(other.0.as_slice()) {
            Some(rest) => rest.is_empty() || rest[0] == 0 || other.0.is_empty(),
            None => false,
        }
    }
}

/// The mount table under construction.
#[derive(Default)]
pub(crate) struct View {
    entries: BTreeMap<TreePath, Mount>,
    placeholders: Vec<Placeholder>,
}

/// A finished mount table.
pub(crate) struct Parts {
    /// Mounts that the child can make while the launcher prepares the rest.
    pub(crate) early: Vec<Mount>,
    /// Mounts that need placeholders or idmapped mounts of the launcher's.
    pub(crate) late: Vec<Mount>,
    /// Names to hold on the host.
    pub(crate) placeholders: Vec<Placeholder>,
}

fn needs_supplies(mount: &Mount) -> bool {
    match mount {
        Mount::Bind { source: BindSource::Host { idmapped, .. }, access, .. } => {
            *idmapped || *access == Access::ReadWrite
        }
        _ => false,
    }
}

/// Effect of a grant for writing at or below a protected name of a writable directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtectedGrant {
    /// Among git's files: an error, because the host's git would execute what the run leaves there.
    Refused,
    /// Writable, as the operator named it; a gap says so.
    Given,
}

/// Every grant for writing, and its effect if it is at or below a protected name.
pub(crate) fn grants(request: &Request) -> impl Iterator<Item = (&Found, Option<ProtectedGrant>)> {
    let roots = request.writable.iter().map(|root| (&root.root, root.git.is_repository));
    let files = request.writable_files.iter().map(|file| (file, false));
    files.chain(roots).map(|(found, is_repository)| {
        let protected = request.writable.iter().find_map(|root| root.protected_above(&found.path));
        let effect = protected.and_then(|(name, is_gits)| {
            // A git directory and `modules` have protected names of their own.
            let has_own = is_repository || name.ends_with("modules");
            if is_gits {
                (!has_own).then_some(ProtectedGrant::Refused)
            } else {
                Some(ProtectedGrant::Given)
            }
        });
        (found, effect)
    })
}

/// The `/dev` that every run has, whatever its policy.
pub(crate) fn devices() -> Vec<Mount> {
    let mut mounts = vec![Mount::Directory { at: "/dev".into(), mode: 0o755 }];
    let nodes = catalogue::DEVICES.iter().map(|name| Path::new("/dev").join(name));
    mounts.extend(nodes.map(|at| Mount::Device { at }));
    mounts.push(Mount::Devpts { at: "/dev/pts".into() });
    mounts.push(Mount::Scratch { at: "/dev/shm".into(), mode: 0o1777 });
    let links = [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ];
    mounts.extend(links.map(|(at, to)| Mount::Symlink { at: at.into(), target: to.into() }));
    mounts
}

impl View {
    /// The tree of a command run.
    pub(crate) fn for_command(
        policy: &Policy,
        request: &Request,
        facts: &HostFacts,
        identity: &Identity,
    ) -> Self {
        let mut view = Self::default();
        let idmapped = identity.disk_owner.is_some();
        view.system(policy.preset, facts, identity);
        for mount in devices() {
            view.put(mount);
        }
        view.scratch("/tmp", 0o1777);
        view.scratch("/var/tmp", 0o1777);
        view.scratch("/run", 0o755);
        if policy.proc == ProcView::Own {
            view.proc(facts);
        } else {
            view.put(Mount::Directory { at: "/proc".into(), mode: 0o555 });
        }
        if policy.preset == CommandPreset::Minimal {
            view.scratch(WORKSPACE, 0o755);
        } else {
            view.homes(facts, idmapped);
        }
        // A directory of the system stays as it is when it is granted, too: see `system`.
        let is_system = |found: &Found| {
            let same = |e: &RootEntry| matches!(e, RootEntry::Directory(d) if d.path == found.path);
            facts.system.iter().any(same)
        };
        for found in &request.readable {
            view.host(found, Access::ReadOnly, idmapped && !is_system(found));
        }
        let seen = request.session.is_some() || view.shown_at(&request.cwd.path).is_some();
        if policy.preset == CommandPreset::Readonly && !seen {
            view.host(&request.cwd, Access::ReadOnly, idmapped);
        }
        // Protected names that were granted come last: the directory that they lie in would make them read-only.
        for effect in [None, Some(ProtectedGrant::Given)] {
            for (found, _) in grants(request).filter(|(_, found)| *found == effect) {
                match request.writable.iter().find(|root| root.root.path == found.path) {
                    Some(root) => view.writable(root, idmapped),
                    None => view.host(found, Access::ReadWrite, idmapped),
                }
            }
        }
        // A read-only directory in a writable one keeps its name: the directories above it cannot be moved away.
        for found in &request.readable {
            view.pin_above(&found.path);
        }
        view.own_rules(request);
        for socket in &request.sockets {
            if !view.shows(&socket.path) {
                view.host(socket, Access::ReadOnly, idmapped);
            }
        }
        for secret in facts.secrets.iter().chain(&request.secrets).chain(&request.hidden) {
            view.mask_where_shown(secret);
        }
        view
    }

    /// The table in the order in which the child applies it, and the names to hold on the host.
    pub(crate) fn into_parts(self) -> Parts {
        let mut parts =
            Parts { early: Vec::new(), late: Vec::new(), placeholders: self.placeholders };
        let mut late_root: Option<TreePath> = None;
        for (key, mount) in self.entries {
            // A mount below a late one is late too, so parents still come first in each part. In tree order everything
            // below a path follows it directly.
            let below = late_root.as_ref().is_some_and(|root| key.is_below_or_at(root));
            if below {
                parts.late.push(mount);
            } else if needs_supplies(&mount) {
                late_root = Some(key);
                parts.late.push(mount);
            } else {
                parts.early.push(mount);
            }
        }
        parts
    }

    /// Paths the run may write, for Landlock.
    pub(crate) fn writable_paths(&self) -> Vec<PathBuf> {
        self.entries
            .values()
            .filter(|mount| {
                matches!(
                    mount,
                    Mount::Scratch { .. } | Mount::Bind { access: Access::ReadWrite, .. }
                )
            })
            .map(|mount| mount.at().clone())
            .collect()
    }

    /// Returns true if a program would find a file of the host or of its own at `path`.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        self.shown_at(path).is_some()
    }

    pub(crate) fn remove(&mut self, at: &Path) {
        self.entries.remove(&TreePath::new(at));
    }

    pub(crate) fn put(&mut self, mount: Mount) {
        self.entries.insert(TreePath::new(mount.at()), mount);
    }

    fn scratch(&mut self, at: impl Into<PathBuf>, mode: u32) {
        self.put(Mount::Scratch { at: at.into(), mode });
    }

    /// The nearest entry at or above `path`, when it shows something there.
    fn shown_at(&self, path: &Path) -> Option<&Mount> {
        let mut key = TreePath::new(path);
        let mount = loop {
            if let Some(mount) = self.entries.get(&key) {
                break mount;
            }
            let parent = key.0.iter().rposition(|b| *b == 0)?;
            key.0.truncate(parent);
        };
        match mount {
            // A private or plain directory on the run's own root is empty below its own top.
            Mount::Scratch { at, .. } | Mount::Directory { at, .. } if at != path => None,
            Mount::Mask { .. } => None,
            _ => Some(mount),
        }
    }

    pub(crate) fn host(&mut self, found: &Found, access: Access, idmapped: bool) {
        let source = BindSource::Host { path: found.path.clone(), id: found.id, idmapped };
        self.put(Mount::Bind { source, at: found.path.clone(), access });
    }

    pub(crate) fn system(&mut self, preset: CommandPreset, facts: &HostFacts, identity: &Identity) {
        for entry in &facts.system {
            match entry {
                RootEntry::Symlink { at, target } => {
                    self.put(Mount::Symlink { at: at.clone(), target: target.clone() });
                }
                RootEntry::Directory(found) => {
                    let etc = found.path.starts_with("/etc");
                    let whole_etc = preset != CommandPreset::Minimal;
                    if !etc || whole_etc == (found.path == Path::new("/etc")) {
                        // Not idmapped, even for root: on this mount the run is unprivileged, so `shadow` stays
                        // unreadable.
                        self.host(found, Access::ReadOnly, false);
                    }
                }
            }
        }
        for found in &facts.sysfs {
            self.host(found, Access::ReadOnly, false);
        }
        for text in &facts.system_texts {
            self.text(text, identity, facts);
        }
        for found in &facts.system_masks {
            self.mask_where_shown(found);
        }
    }

    fn text(&mut self, text: &SystemText, identity: &Identity, facts: &HostFacts) {
        let Identity { guest_uid: uid, guest_gid: gid, .. } = identity;
        let home = facts.homes.first().map_or_else(|| Path::new("/"), PathBuf::as_path);
        let home = home.to_string_lossy().replace([':', '\n'], "_");
        let at = text.at.clone();
        let text = match text.kind {
            SystemTextKind::Passwd => format!(
                "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\nagent:x:{uid}:{gid}:agent:{home}:/bin/sh\n"
            ),
            SystemTextKind::Group => {
                format!("root:x:0:\ntty:x:5:\nnogroup:x:65534:\nagent:x:{gid}:\n")
            }
            SystemTextKind::Hostname => "ringfence\n".to_owned(),
            SystemTextKind::Hosts => "127.0.0.1 localhost ringfence\n::1 localhost\n".to_owned(),
            SystemTextKind::NameServices => {
                let files = ["passwd", "group", "shadow", "networks", "protocols", "services"];
                let mut text: String =
                    files.map(|database| format!("{database}: files\n")).concat();
                text.push_str("hosts: files dns\n");
                text
            }
            SystemTextKind::Resolver => {
                format!("nameserver {}\noptions ndots:1\n", crate::network::NAME_SERVER)
            }
        };
        self.put(Mount::Text { at, text });
    }

    /// Shows the certificates of an interception in place of the system's.
    pub(crate) fn certificates(&mut self, interception: &Interception) {
        let own = Path::new(catalogue::CERTIFICATES);
        let places = interception.bundles.iter().map(PathBuf::as_path).filter(|at| self.shows(at));
        let places: Vec<PathBuf> = places.chain([own]).map(Path::to_owned).collect();
        for at in places {
            self.put(Mount::Text { at, text: interception.certificates.clone() });
        }
        let stores = interception.java_stores.iter().filter(|at| self.shows(at));
        for at in stores.cloned().collect::<Vec<_>>() {
            self.put(Mount::Bytes { at, bytes: interception.java_store.clone() });
        }
    }

    /// Shows ssh(1) the keys of the granted hosts, and where the agent is. In the system's settings, because a key found
    /// in the user's own list would have ssh(1) learn the host's other keys, which the agent does not know.
    pub(crate) fn ssh_agent(
        &mut self,
        preset: CommandPreset,
        agent: &SshAgentFacts,
        environment: &mut BTreeMap<OsString, OsString>,
        gaps: &mut Vec<String>,
    ) {
        environment.insert("SSH_AUTH_SOCK".into(), catalogue::SSH_AGENT.into());
        let text = |at: &Path, text: String| Mount::Text { at: at.to_owned(), text };
        let (own, system) = (catalogue::SSH_KNOWN_HOSTS, catalogue::SYSTEM_KNOWN_HOSTS);
        self.put(text(Path::new(own), agent.known_hosts.clone()));
        match &agent.client_settings {
            Some((at, settings)) if self.shows(at) => {
                // The first value counts: ssh_config(5).
                self.put(text(at, format!("GlobalKnownHostsFile {own} {system}\n{settings}")));
            }
            // It has an `/etc` of its own, in which the file can be made.
            _ if preset == CommandPreset::Minimal => {
                self.put(text(Path::new(system), agent.known_hosts.clone()));
            }
            _ => {
                let command = format!("ssh -o GlobalKnownHostsFile={own}");
                environment.entry("GIT_SSH_COMMAND".into()).or_insert(command.into());
                gaps.push(format!(
                    "this host has no settings of ssh to add the granted hosts' keys to: git finds them, other programs need `-o GlobalKnownHostsFile={own}`"
                ));
            }
        }
    }

    fn proc(&mut self, facts: &HostFacts) {
        self.put(Mount::Proc { at: "/proc".into() });
        self.put(Mount::Bind {
            source: BindSource::Beneath { root: "/proc".into(), path: "sys".into() },
            at: "/proc/sys".into(),
            access: Access::ReadOnly,
        });
        for found in &facts.proc_masks {
            let kind = MaskKind::over(found.kind);
            self.put(Mount::Mask { at: found.path.clone(), kind });
        }
    }

    fn homes(&mut self, facts: &HostFacts, idmapped: bool) {
        for home in &facts.homes {
            self.scratch(home, 0o700);
        }
        for entry in &facts.home_entries {
            let source =
                BindSource::Host { path: entry.source.path.clone(), id: entry.source.id, idmapped };
            self.put(Mount::Bind { source, at: entry.at.clone(), access: Access::ReadOnly });
        }
    }

    fn writable(&mut self, root: &WritableRoot, idmapped: bool) {
        self.host(&root.root, Access::ReadWrite, idmapped);
        // A directory below this one that was granted read-only keeps its own entry: the map holds both.
        let top = &root.root.path;
        for path in &root.git.pinned {
            self.beneath(top, path, Access::ReadWrite);
        }
        for protected in root.protected.iter().chain(&root.git.protected) {
            self.protect(root, protected);
        }
        for secret in &root.secrets {
            self.put(Mount::Mask { at: top.join(secret), kind: MaskKind::File });
        }
        if let Some(linked) = &root.git.linked {
            self.writable(linked, idmapped);
        }
    }

    /// Applies the restrictions of the workspace's own settings file. Resolved below the workspace's mount when it is
    /// mounted, so that it cannot reach anything else.
    fn own_rules(&mut self, request: &Request) {
        let top = &request.cwd.path;
        for rule in &request.own_rules {
            let at = top.join(&rule.path);
            if !self.shows(&at) {
                continue;
            }
            self.pin_above(&at);
            match rule.effect {
                OwnEffect::Hidden => {
                    let key = TreePath::new(&at);
                    self.entries.retain(|known, _| !known.is_below_or_at(&key));
                    self.put(Mount::Mask { at, kind: MaskKind::over(rule.kind) });
                }
                // If everything is read-only already there is nothing to restrict.
                OwnEffect::ReadOnly => {
                    if let Some(Mount::Bind { access: Access::ReadWrite, .. }) = self.shown_at(&at)
                    {
                        self.beneath(top, &rule.path, Access::ReadOnly);
                    }
                }
            }
        }
    }

    fn protect(&mut self, root: &WritableRoot, protected: &Protected) {
        if let ProtectedState::Absent(shape) = protected.state {
            self.placeholders.push(Placeholder {
                root: root.root.path.clone(),
                root_id: root.root.id,
                path: protected.path.clone(),
                shape,
            });
        }
        self.beneath(&root.root.path, &protected.path, Access::ReadOnly);
    }

    fn beneath(&mut self, root: &Path, path: &Path, access: Access) {
        let source = BindSource::Beneath { root: root.to_owned(), path: path.to_owned() };
        self.put(Mount::Bind { source, at: root.join(path), access });
    }

    /// Hides a file and everything below it.
    pub(crate) fn mask_where_shown(&mut self, found: &Found) {
        let key = TreePath::new(&found.path);
        if matches!(self.entries.get(&key), Some(Mount::Mask { .. })) {
            // Named twice, by two lists.
            return;
        }
        // Removes grants there or below too, whether or not anything shows the path itself.
        self.entries.retain(|at, _| !at.is_below_or_at(&key));
        // Only now: a place that nothing but its own grant showed is not there any more, and a mask could not be put on
        // it.
        if self.shows(&found.path) {
            self.pin_above(&found.path);
            self.put(Mount::Mask { at: found.path.clone(), kind: MaskKind::over(found.kind) });
        }
    }

    /// Makes a mount of each directory between a writable one and `path`: a mount cannot be renamed, so a masked file
    /// cannot be moved out from under its mask with its directory.
    fn pin_above(&mut self, path: &Path) {
        let Some(parent) = path.parent() else { return };
        let Some(Mount::Bind { at, access: Access::ReadWrite, .. }) = self.shown_at(parent) else {
            return;
        };
        let root = at.clone();
        for above in parent.ancestors().take_while(|above| **above != root) {
            let Ok(below) = above.strip_prefix(&root) else { return };
            if !self.entries.contains_key(&TreePath::new(above)) {
                self.beneath(&root, below, Access::ReadWrite);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_like_a_tree() {
        let mut paths = ["/usr-x", "/usr/lib", "/", "/usr", "/usr.d", "/usr/lib/a"].map(Path::new);
        paths.sort_by_key(|p| TreePath::new(p));
        let expected = ["/", "/usr", "/usr/lib", "/usr/lib/a", "/usr-x", "/usr.d"].map(Path::new);
        assert_eq!(paths, expected);
    }

    #[test]
    fn a_name_that_begins_alike_is_not_below() {
        let key = |p: &str| TreePath::new(Path::new(p));
        assert!(key("/data/x").is_below_or_at(&key("/data")));
        assert!(key("/data").is_below_or_at(&key("/data")));
        assert!(!key("/data2").is_below_or_at(&key("/data")));
        assert!(key("/data2").is_below_or_at(&key("/")));
    }
}
