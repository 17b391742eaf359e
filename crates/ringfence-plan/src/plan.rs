//! The plan: a plain value that describes everything a launch will do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use ringfence_spec::{Enforcement, Limits, Tier};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::facts::{CallerIds, FileId, FileKind, GitIndex, PlaceholderShape, WritableDir};
use crate::network::{NetworkListener, NetworkPlan};
use crate::seccomp::Filter;

/// Everything one launch will do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The strength of the fence.
    pub tier: Tier,
    /// The program's user and group.
    pub identity: Identity,
    /// Names held on the host while the run lasts.
    pub placeholders: Vec<Placeholder>,
    /// cgroup limits, null when rlimits and the watchdog stand in.
    pub cgroup: Option<CgroupPlan>,
    /// Namespaces that the first process is created in.
    #[serde(rename = "birth")]
    pub initial_namespaces: Vec<Namespace>,
    /// Steps of the first process, in order.
    pub setup: Vec<Step>,
    /// Steps of the program's own process before it becomes the program, in order.
    pub payload: Vec<Step>,
    /// The system call filter.
    pub seccomp: Option<Filter>,
    /// Landlock rules.
    pub landlock: Option<LandlockPlan>,
    /// The program's whole environment.
    #[serde(serialize_with = "lossy_map")]
    pub environment: BTreeMap<OsString, OsString>,
    /// Program and arguments.
    #[serde(serialize_with = "lossy_list")]
    pub argv: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Limits the supervisor watches.
    pub limits: Limits,
    /// In the landlock tier, the private directory the launcher makes on the host and removes afterwards.
    pub host_scratch: Option<PathBuf>,
    /// Directories of the host's that the run may write; their growth counts against the disk limit.
    pub disk_roots: Vec<WritableDir>,
    /// Directories in which a `.git` that appears is reported.
    pub watch_git: Vec<PathBuf>,
    /// Git indexes that are compared after the run.
    pub git_indexes: Vec<GitIndex>,
    /// Git directories that the run may write: none of its files may become a link.
    pub git_dirs: Vec<WritableDir>,
    /// Host sockets that may be connected to.
    pub sockets: Vec<FileId>,
    /// The network, null where the run has no namespace of its own to capture connections in.
    pub network: Option<NetworkPlan>,
    /// The receipt, if every step succeeds.
    pub enforcement: Enforcement,
    /// Kinds of refusal that cannot be observed.
    pub unobserved: Vec<String>,
}

impl Plan {
    /// SHA-256 over everything but the program, its arguments and its environment's values: two runs under one policy
    /// on one host have the same hash.
    pub fn sha256(&self) -> String {
        let mut policy = self.clone();
        policy.argv.clear();
        policy.environment.values_mut().for_each(OsString::clear);
        policy.identity.host_uid = 0;
        policy.identity.host_gid = 0;
        // Certificates of an authority that is new for each run.
        for step in &mut policy.setup {
            match step {
                Step::Mount(Mount::Text { text, .. })
                    if text.contains("-----BEGIN CERTIFICATE-----") =>
                {
                    text.clear();
                }
                Step::Mount(Mount::Bytes { bytes, .. }) => bytes.clear(),
                _ => {}
            }
        }
        // A fresh name for each login of the user.
        if let Some(agent) = policy.network.as_mut().and_then(|n| n.ssh_agent.as_mut()) {
            agent.socket.clear();
        }
        // They describe a repository's content, and not the run's permissions.
        policy.git_indexes.clear();
        // A fresh name for each run, in three places.
        if let Some(scratch) = policy.host_scratch.take() {
            policy.landlock.iter_mut().for_each(|l| l.rules.retain(|r| r.path != scratch));
            if policy.cwd == scratch {
                policy.cwd.clear();
            }
        }
        // A plan holds strings, numbers and lists: serialising it cannot fail, and an empty text would still hash.
        let text = serde_json::to_vec(&policy).unwrap_or_default();
        ringfence_spec::hex(&Sha256::digest(&text))
    }
}

/// uid and gid that a root caller's run sees, and that code sees.
pub(crate) const GUEST_ID: u32 = 1000;

/// The program's ids, inside and outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// uid the program sees.
    pub guest_uid: u32,
    /// gid the program sees.
    pub guest_gid: u32,
    /// uid the host sees; never 0.
    pub host_uid: u32,
    /// gid the host sees; never 0 for a root caller.
    pub host_gid: u32,
    /// For a root caller: the owner on disk that the run's files keep, by idmapped mounts.
    pub disk_owner: Option<(u32, u32)>,
}

impl Identity {
    /// Identity of a run of this caller, as far as it is known before the policy: for a root caller, files belong to
    /// root until a workspace determines another owner.
    pub fn of_caller(caller: CallerIds) -> Self {
        let CallerIds { uid, gid, host_root, stand_in_id, .. } = caller;
        if host_root {
            return Self {
                guest_uid: GUEST_ID,
                guest_gid: GUEST_ID,
                host_uid: stand_in_id,
                host_gid: stand_in_id,
                disk_owner: Some((0, 0)),
            };
        }
        // Root of a user namespace is an ordinary user of the host, and looks like one inside.
        let inside = |id| if uid == 0 { GUEST_ID } else { id };
        Self {
            guest_uid: inside(uid),
            guest_gid: inside(gid),
            host_uid: uid,
            host_gid: gid,
            disk_owner: None,
        }
    }

    /// The same for code, which never sees its caller's own ids.
    pub fn of_code(caller: CallerIds) -> Self {
        Self { guest_uid: GUEST_ID, guest_gid: GUEST_ID, ..Self::of_caller(caller) }
    }

    /// Returns true if both have the same ids by the same means; the owners of their files may differ.
    pub fn same_ids(&self, other: &Self) -> bool {
        let of = |who: &Self| (who.guest_uid, who.guest_gid, who.host_uid, who.host_gid);
        of(self) == of(other) && self.disk_owner.is_some() == other.disk_owner.is_some()
    }
}

/// A name held on the host while a run lasts, so that the run can have a read-only mount on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placeholder {
    /// The writable directory.
    pub root: PathBuf,
    /// Its identity when surveyed.
    pub root_id: FileId,
    /// The name below it.
    pub path: PathBuf,
    /// Its form.
    pub shape: PlaceholderShape,
}

/// Limits a cgroup leaf is given before the first process enters it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPlan {
    /// Bytes for the whole tree.
    pub memory_bytes_max: Option<u64>,
    /// Tasks for the whole tree, with one more for the init above the program.
    pub pids_max: Option<u32>,
    /// True if CPU time is limited and so must be counted.
    pub count_cpu: bool,
}

/// A kind of namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespace {
    /// Users and capabilities.
    User,
    /// The mount table.
    Mount,
    /// Process numbers.
    Pid,
    /// Interfaces, addresses, ports and abstract sockets.
    Network,
    /// System V and POSIX queues, semaphores and shared memory.
    Ipc,
    /// Host name.
    Uts,
    /// The view of cgroups.
    Cgroup,
}

impl Namespace {
    /// Namespaces that a child must be forked into.
    pub const INITIAL: [Self; 3] = [Self::User, Self::Mount, Self::Pid];
    /// Namespaces that it can enter by itself.
    pub const REST: [Self; 4] = [Self::Network, Self::Ipc, Self::Uts, Self::Cgroup];

    /// Its name in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Mount => "mount",
            Self::Pid => "pid",
            Self::Network => "network",
            Self::Ipc => "ipc",
            Self::Uts => "uts",
            Self::Cgroup => "cgroup",
        }
    }
}

/// Writing or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read and execute.
    ReadOnly,
    /// Read, execute, write.
    ReadWrite,
}

/// Source of a bind mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindSource {
    /// A canonical host path, checked on the descriptor against the file that was surveyed.
    Host {
        /// Canonical path.
        path: PathBuf,
        /// The identity of the file there.
        id: FileId,
        /// True if the caller is root and owners are translated on this mount.
        idmapped: bool,
    },
    /// A name below a mount made earlier in this plan, resolved beneath it and never through a link.
    Beneath {
        /// Path of the earlier mount.
        root: PathBuf,
        /// The name below it.
        path: PathBuf,
    },
}

/// Form of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskKind {
    /// An unreadable empty file.
    File,
    /// An unreadable empty directory.
    Directory,
}

impl MaskKind {
    /// The mask that can stand on a file of this kind.
    pub const fn over(kind: FileKind) -> Self {
        match kind {
            FileKind::Directory => Self::Directory,
            _ => Self::File,
        }
    }
}

/// One entry of the mount table. Paths are those that the program sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mount {
    /// An empty private writable directory. All of them share the root's one budget of bytes and inodes.
    Scratch {
        /// Path.
        at: PathBuf,
        /// Permissions.
        mode: u32,
    },
    /// A part of the host.
    Bind {
        /// Source.
        source: BindSource,
        /// Path.
        at: PathBuf,
        /// Writable or not.
        access: Access,
    },
    /// A directory on the run's own root.
    Directory {
        /// Path.
        at: PathBuf,
        /// Permissions.
        mode: u32,
    },
    /// A link on the run's own root.
    Symlink {
        /// Path.
        at: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// A small read-only file with generated content, over a host file if there is one.
    Text {
        /// Path.
        at: PathBuf,
        /// Its content.
        text: String,
    },
    /// The same with content that is not text.
    Bytes {
        /// Path.
        at: PathBuf,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// A harmless device node.
    Device {
        /// Path, below `/dev`.
        at: PathBuf,
    },
    /// A private set of pseudo terminals.
    Devpts {
        /// Path.
        at: PathBuf,
    },
    /// The run's own processes.
    Proc {
        /// Path.
        at: PathBuf,
    },
    /// The same without anything that is not a process.
    ProcOfPids {
        /// Path.
        at: PathBuf,
    },
    /// A file that exists and must not be read.
    Mask {
        /// Path.
        at: PathBuf,
        /// Its form.
        kind: MaskKind,
    },
}

impl Mount {
    /// The path that the program sees.
    pub fn at(&self) -> &PathBuf {
        match self {
            Self::Scratch { at, .. }
            | Self::Bind { at, .. }
            | Self::Directory { at, .. }
            | Self::Symlink { at, .. }
            | Self::Text { at, .. }
            | Self::Bytes { at, .. }
            | Self::Device { at }
            | Self::Devpts { at }
            | Self::Proc { at }
            | Self::ProcOfPids { at }
            | Self::Mask { at, .. } => at,
        }
    }
}

/// A resource limit of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Core dump size.
    Core,
    /// CPU seconds per process.
    Cpu,
    /// Private writable memory per process.
    Data,
    /// Size of one file.
    Fsize,
    /// Locked memory.
    Memlock,
    /// Everything mapped.
    AddressSpace,
    /// Signals that wait.
    Sigpending,
    /// Open descriptors.
    Nofile,
    /// Processes of this user in this user namespace.
    Nproc,
    /// POSIX message queue bytes.
    Msgqueue,
    /// Real-time priority.
    Rtprio,
    /// Priority above the ordinary one.
    Nice,
}

/// One resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// The resource.
    pub resource: Resource,
    /// Soft and hard alike.
    pub max: u64,
}

/// Access that a Landlock rule grants below its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAccess {
    /// Read and execute.
    Read,
    /// Read, execute, write, make, remove, rename; no device nodes.
    Write,
    /// Read and write existing files and their ioctls, make none: for `/dev`.
    Device,
}

/// One Landlock rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRule {
    /// The path, as the program sees it.
    pub path: PathBuf,
    /// The access granted below it.
    pub access: RuleAccess,
    /// In the landlock tier, the required identity of the file; on the run's own root the path is proof enough.
    pub id: Option<FileId>,
}

/// A Landlock ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// The ABI whose rights are handled; each of them that no rule grants is refused.
    pub abi: u32,
    /// The exception for reading.
    pub reading: LandlockReading,
    /// True if TCP bind and connect are refused too.
    pub deny_tcp: bool,
    /// Rules.
    pub rules: Vec<LandlockRule>,
}

/// Handling of opening a file or a directory for reading, and of truncating by path, which is decided at the same
/// moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandlockReading {
    /// It is.
    Seen,
    /// It is not handled. For each opened file the kernel walks up to the rule that allows it: half of a fence's cost
    /// in a search through a large tree, wasted if everything visible may be read.
    Free,
}

/// One step of the child. It executes them in order and stops at the first failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Close every descriptor that is not for this run.
    CloseDescriptors,
    /// Enter the cgroup leaf made by the launcher.
    JoinCgroup,
    /// Enter more namespaces. By the child itself, while the launcher does its part.
    Unshare {
        /// The namespaces.
        namespaces: Vec<Namespace>,
    },
    /// Wait until the launcher has written the id maps, then become that user.
    TakeIdentity,
    /// Wait for the launcher's placeholders and idmapped mounts.
    TakeSupplies,
    /// Wait until the program may start: its cgroup is made, its beginning is recorded.
    TakeLeave,
    /// Stop mounts from spreading in or out.
    PrivateMounts,
    /// Set a host name that reveals nothing.
    Hostname {
        /// The name.
        name: String,
    },
    /// Bring the private loopback up.
    LoopbackUp,
    /// Make every address local, and bind the listeners that the network helper takes over.
    CaptureNetwork {
        /// False where the host refuses the route: then there are only the listeners.
        captures: bool,
        /// The listeners.
        listeners: Vec<NetworkListener>,
    },
    /// Make an empty root in memory, large enough for the parts that every run has, and pivot to it. The old root stays
    /// attached over it, as the source of mounts. Early: the kernel visits every task of the host for this, and the child
    /// waits for its plan anyway.
    NewRoot,
    /// Set the size limits of the root.
    SizeRoot {
        /// Size limit.
        bytes_max: u64,
        /// Inode limit.
        inodes_max: u64,
    },
    /// One mount.
    Mount(Mount),
    /// Nothing in this private directory can be executed or mapped as code.
    NoExecute {
        /// Path.
        at: PathBuf,
    },
    /// Make the root itself read-only.
    SealRoot,
    /// Detach the old root.
    DetachOldRoot,
    /// Die when the supervisor dies; checked against a death that came before.
    DieWithParent,
    /// Overwrite the caller's arguments and environment in this copy of the caller's memory. Early: a change of uid
    /// takes away the right to.
    WipeSelf,
    /// Close this process's memory to every other.
    HideSelf,
    /// Split: the payload goes on in a child, this process stays as init and reaps.
    ForkPayload,
    /// Own session; the terminal, if there is one, becomes its controlling terminal.
    NewSession,
    /// Enter the working directory.
    ChangeDirectory,
    /// Resource limits.
    SetRlimits {
        /// The limits.
        limits: Vec<Rlimit>,
    },
    /// Change to another user outright, where there is no user namespace.
    BecomeUser {
        /// uid.
        uid: u32,
        /// gid.
        gid: u32,
    },
    /// Empty the bounding set: no program gains a capability from here on. The process itself keeps those it has.
    DropBoundingSet,
    /// Empty every other capability set.
    DropCapabilities,
    /// setuid programs gain nothing from here on.
    NoNewPrivileges,
    /// Restrict file access, signals and abstract sockets.
    Landlock,
    /// Restrict system calls. Last: after this the child can do nothing else.
    Seccomp,
    /// Become the program.
    Execute,
}

/// As text for people; unchanged between Ringfence's own processes.
fn lossy_map<S: serde::Serializer>(
    map: &BTreeMap<OsString, OsString>,
    s: S,
) -> Result<S::Ok, S::Error> {
    if !s.is_human_readable() {
        return map.serialize(s);
    }
    s.collect_map(map.iter().map(|(k, v)| (k.to_string_lossy(), v.to_string_lossy())))
}

fn lossy_list<S: serde::Serializer>(list: &[OsString], s: S) -> Result<S::Ok, S::Error> {
    if !s.is_human_readable() {
        return list.serialize(s);
    }
    s.collect_seq(list.iter().map(|v| v.to_string_lossy()))
}
