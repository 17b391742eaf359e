//! Facts about the host that a plan needs, as plain values. Gathered by `ringfence-jail`, invented by tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_spec::SecretGrant;
use serde::{Deserialize, Serialize};

use crate::network::SshAgentPlan;
use crate::plan::{Access, BindSource, Identity, Mount};
use crate::seccomp::Arch;

/// Identity of the file that a path named when it was surveyed. Checked again on the descriptor the child opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, not followed.
    Symlink,
    /// A unix socket.
    Socket,
    /// A device, a FIFO, anything else.
    Other,
}

/// A path with every symbolic link resolved, and the file found there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Canonical path.
    pub path: PathBuf,
    /// Its type.
    pub kind: FileKind,
    /// Its identity.
    pub id: FileId,
}

/// A directory that a run may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritableDir {
    /// Canonical path.
    pub path: PathBuf,
    /// Its identity.
    pub id: FileId,
}

/// A name at the top of the system tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum RootEntry {
    /// A directory to show read-only.
    Directory(Found),
    /// A link such as `/bin -> usr/bin`, made again inside.
    Symlink {
        /// Path of the link.
        at: PathBuf,
        /// Its text.
        target: PathBuf,
    },
}

/// Something in a private home that stays visible: a toolchain or a harmless dotfile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HomeEntry {
    /// Its path inside the run.
    pub at: PathBuf,
    /// The file on the host.
    pub source: Found,
}

/// Existence of a protected name in a writable directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtectedState {
    /// It exists and becomes read-only.
    Present(FileKind),
    /// It does not exist: a placeholder holds its place during the run.
    Absent(PlaceholderShape),
}

/// Form of a placeholder on the host while a run lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceholderShape {
    /// An empty directory: git does not list it, so that `git add -A` cannot pick it up, and programs that copy or pack a
    /// tree know what to do with it. On ext4 it takes 5 µs to make and 25 µs to remove, a socket 4 µs together. Without a
    /// journal and with the mount option `discard`, removing one waits for the disk, 40 to 250 µs.
    EmptyDirectory,
    /// A unix socket without a listener: opening it fails at once, and git does not list it either. For names that are
    /// files, if they exist.
    Inert,
    /// An empty file.
    EmptyFile,
    /// A file with the content `.`: as `commondir` it names the repository itself, so git goes on working.
    Dot,
}

/// A name below a writable directory that the run may not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Protected {
    /// Relative to the writable directory.
    pub path: PathBuf,
    /// Its existence.
    pub state: ProtectedState,
}

/// Git's state in a writable directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GitFacts {
    /// True if the directory is a repository, or has a `.git` file that makes it part of one.
    pub is_repository: bool,
    /// Directories that must be mount points, so that they cannot be moved away; relative, parents first.
    pub pinned: Vec<PathBuf>,
    /// Names to make read-only or to hold with a placeholder; relative.
    pub protected: Vec<Protected>,
    /// A repository elsewhere that a `.git` file here points to and that points back here.
    pub linked: Option<Box<WritableRoot>>,
    /// Reason that a `.git` file was not followed.
    pub distrusted: Option<String>,
    /// Unprotected parts of git's executable surface, one sentence each.
    pub gaps: Vec<String>,
    /// Indexes that the run may write, or whose nested repositories lie where it may write.
    pub indexes: Vec<GitIndex>,
    /// Git directories that the run may write, with or without a checkout.
    pub dirs: Vec<WritableDir>,
}

/// An index whose nested repositories are compared after the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitIndex {
    /// The directory it is in.
    pub git_dir: PathBuf,
    /// Identity of that directory.
    pub git_dir_id: FileId,
    /// The directory that its names are relative to.
    pub checkout: PathBuf,
    /// Bytes of an object name: 20 for SHA-1, 32 for SHA-256.
    pub hash_bytes: usize,
    /// Nested repositories whose `.git` the run cannot change, in a directory that no run ever could.
    pub settled: Vec<PathBuf>,
    /// Nested repositories that it named before the run.
    pub links: Vec<PathBuf>,
    /// Its state before the run.
    pub before: IndexBefore,
}

/// An index before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexBefore {
    /// It did not exist, so it named nothing.
    Absent,
    /// It was read in this state.
    Read {
        /// The file then.
        stamp: FileStamp,
        /// True if that is recorded already.
        is_on_record: bool,
    },
    /// It could not be judged, for a reason reported as a gap.
    Unjudged {
        /// The file's stamp, if it was a regular one.
        stamp: Option<FileStamp>,
    },
}

/// Nested repositories that an index named in this state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLinks {
    /// The index when it was read.
    pub stamp: FileStamp,
    /// Paths in the checkout.
    pub links: Vec<PathBuf>,
    /// Reason that it could not be judged, if so: it is not read again before it changes.
    #[serde(default)]
    pub unjudged: Option<String>,
}

/// Attributes that change when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Identity of the file.
    pub id: FileId,
    /// Its size.
    pub bytes: u64,
    /// Time of the last change of its content, in seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Time of the last change of any attribute. No program can set it.
    pub changed: (i64, i64),
}

/// A directory the run may write, with everything in it that it may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WritableRoot {
    /// The directory.
    pub root: Found,
    /// Its owner: a root caller's run acts as this owner.
    pub owner_uid: u32,
    /// Its group.
    pub owner_gid: u32,
    /// Names of the catalogue, present or not.
    pub protected: Vec<Protected>,
    /// Secret files at its top (`.env`), relative.
    pub secrets: Vec<PathBuf>,
    /// Git's executable surface.
    pub git: GitFacts,
}

impl Request {
    /// Every file and directory of the host that the run can write, canonical.
    pub(crate) fn writable_paths(&self) -> impl Iterator<Item = &Path> {
        let sessions = self.session.iter().map(|session| &session.found);
        let mapped = self.mapped.iter().map(|mapped| &mapped.found);
        let others = self.writable_files.iter().chain(sessions).chain(mapped);
        let roots = self.writable.iter().flat_map(WritableRoot::paths);
        roots.chain(others.map(|found| found.path.as_path()))
    }
}

impl WritableRoot {
    /// Returns the protected name here that `path` is, or lies in, and true if it is git's.
    pub(crate) fn protected_above(&self, path: &Path) -> Option<(PathBuf, bool)> {
        let gits = self.git.protected.iter().map(|name| (name, true));
        let mut names = gits.chain(self.protected.iter().map(|name| (name, false)));
        let is_above = |name: &Protected| {
            let is_present = matches!(name.state, ProtectedState::Present(_));
            is_present && path.starts_with(self.root.path.join(&name.path))
        };
        let found = names.find(|(name, _)| is_above(name));
        found
            .map(|(name, is_gits)| (self.root.path.join(&name.path), is_gits))
            .or_else(|| self.git.linked.as_ref().and_then(|linked| linked.protected_above(path)))
    }

    /// The directories that the run can write by this root.
    fn paths(&self) -> Vec<&Path> {
        let mut paths = self.git.linked.as_ref().map(|linked| linked.paths()).unwrap_or_default();
        paths.push(&self.root.path);
        paths
    }
}

/// Availability of user namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UserNamespaces {
    /// They are not known to fail; the launch itself is the proof.
    Usable,
    /// They failed with this error.
    Refused(String),
}

/// The cgroup hierarchy in which a run can have a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupFacts {
    /// A v2 directory in which this process may make children with memory and pids controllers.
    V2,
    /// v1 memory and pids directories in which this process may make children.
    V1,
    /// Neither, for this reason.
    Missing(String),
}

/// Destination of core dumps, by `kernel.core_pattern`: core(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreHandler {
    /// A file, if `RLIMIT_CORE` has room for it.
    File,
    /// A program on the host that reads it from a pipe: the pattern begins with `|`.
    Program,
    /// A socket on the host: the pattern begins with `@`, since Linux 6.16.
    Socket,
}

/// Core dumps on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CoreDumps {
    /// Destination.
    pub handler: CoreHandler,
    /// Hard limit of the caller, which no run can raise; none if unlimited.
    pub bytes_max: Option<u64>,
}

impl CoreDumps {
    /// Reads `kernel.core_pattern`.
    pub fn new(pattern: &str, bytes_max: Option<u64>) -> Self {
        let handler = match pattern.as_bytes().first() {
            Some(b'|') => CoreHandler::Program,
            Some(b'@') => CoreHandler::Socket,
            _ => CoreHandler::File,
        };
        Self { handler, bytes_max }
    }

    /// The gap, if a crash in a run reaches a handler on the host.
    pub fn gap(&self) -> Option<&'static str> {
        match (self.handler, self.bytes_max) {
            (CoreHandler::Socket, _) => Some(
                "a crash sends the program's memory to a socket of the host: `kernel.core_pattern` begins with `@`, \
                 and no limit holds that back",
            ),
            (CoreHandler::Program, Some(0)) => Some(
                "a crash starts the host's core handler with the program's memory: the caller's hard limit on core \
                 dumps is 0, and only a limit of 1 keeps the handler from starting",
            ),
            _ => None,
        }
    }
}

/// The caller's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CallerIds {
    /// The user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// True for the host's own root, false for root of some user namespace.
    pub host_root: bool,
    /// True if the user is root outside its user namespace, whatever its number inside.
    pub root_outside: bool,
    /// For a root caller: the host uid and gid that the run is given instead.
    pub stand_in_id: u32,
}

/// Capture of every connection of a network namespace, by a local route for all addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkCapture {
    /// Taken to work, until a start shows otherwise.
    Usable,
    /// Refused, and the reason.
    Refused(String),
}

/// A system file that a run sees with generated content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SystemText {
    /// Its path after every link: `/etc/resolv.conf` often leads to `/run`.
    pub at: PathBuf,
    /// Its content.
    pub kind: SystemTextKind,
}

/// Content of a generated system file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemTextKind {
    /// `/etc/group`.
    Group,
    /// `/etc/hostname`.
    Hostname,
    /// `/etc/hosts`.
    Hosts,
    /// `/etc/nsswitch.conf`: files and DNS, and no socket of a host's daemon.
    NameServices,
    /// `/etc/passwd`.
    Passwd,
    /// `/etc/resolv.conf`: one name server and no search list, which would make several lookups of one.
    Resolver,
}

/// Facts about this host and this caller.
#[derive(Clone, Debug, Serialize)]
pub struct HostFacts {
    /// The system call table.
    pub arch: Arch,
    /// The caller.
    pub ids: CallerIds,
    /// Supplementary groups besides the caller's own.
    pub groups: Vec<u32>,
    /// User namespaces.
    pub user_namespaces: UserNamespaces,
    /// Landlock ABI, 0 if there is none.
    pub landlock_abi: u32,
    /// True if seccomp filters can be installed.
    pub seccomp_filter: bool,
    /// True if a notification listener is available: not if an outer fence already has one.
    pub seccomp_notify: bool,
    /// Capture of connections in a network namespace.
    pub network_capture: NetworkCapture,
    /// cgroups.
    pub cgroup: CgroupFacts,
    /// True if `/proc` hides processes from this caller (`hidepid`).
    pub hides_processes: bool,
    /// Core dumps.
    pub core_dumps: CoreDumps,
    /// The caller's environment.
    #[serde(skip)]
    pub environment: BTreeMap<OsString, OsString>,
    /// System directories and links that exist.
    pub system: Vec<RootEntry>,
    /// System files that are masked, because they hold secrets or name the host; they exist.
    pub system_masks: Vec<Found>,
    /// System files that are replaced by generated ones; they exist.
    pub system_texts: Vec<SystemText>,
    /// The caller's homes ($HOME and passwd's), canonical, outermost first.
    pub homes: Vec<PathBuf>,
    /// Homes of other people, for a caller that is root.
    pub other_homes: Vec<PathBuf>,
    /// Visible entries of the caller's homes.
    pub home_entries: Vec<HomeEntry>,
    /// Secrets that exist in the homes: masked wherever a grant would show them.
    pub secrets: Vec<Found>,
    /// Files of `/proc` to mask, that exist on this host.
    pub proc_masks: Vec<Found>,
    /// Files of `/sys` to show.
    pub sysfs: Vec<Found>,
}

/// A path in the workspace that its own settings file makes read-only or hides. Relative to the workspace and resolved
/// in it without following a link, both in the survey and when it is mounted: it cannot name anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnRule {
    /// Below the workspace.
    pub path: PathBuf,
    /// Its type.
    pub kind: FileKind,
    /// The effect.
    pub effect: OwnEffect,
}

/// Effect of a workspace's own settings file on a path in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnEffect {
    /// It cannot be changed.
    ReadOnly,
    /// It cannot be seen.
    Hidden,
}

/// Origin of an interpreter and its packages. Both are trusted code: a plan shows where it takes them from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PythonFacts {
    /// `3.11`.
    pub version: String,
    /// The directory it was installed to; of a virtual environment, that.
    pub prefix: PathBuf,
    /// The virtual environment, if it belongs to one.
    pub environment: Option<PathBuf>,
    /// Directories of packages, in search order.
    pub packages: Vec<PathBuf>,
    /// A directory that runs may write and in which a part of it lies: a run may have changed it.
    pub written_by_runs: Option<PathBuf>,
}

/// The request for one run, with every path resolved.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Working directory, canonical.
    pub cwd: Found,
    /// The cwd and `--rw` directories, surveyed.
    pub writable: Vec<WritableRoot>,
    /// `--rw` paths that are files.
    pub writable_files: Vec<Found>,
    /// `--ro` paths.
    pub readable: Vec<Found>,
    /// Secret files at the top of directories that are shown read-only.
    pub secrets: Vec<Found>,
    /// Restrictions by the workspace's own settings file.
    pub own_rules: Vec<OwnRule>,
    /// `--hide` paths that exist.
    pub hidden: Vec<Found>,
    /// `--socket` paths.
    pub sockets: Vec<Found>,
    /// In the landlock tier, a fresh name for the run's private directory.
    pub host_scratch: PathBuf,
    /// True if the program gets a terminal of its own.
    pub terminal: bool,
    /// True if output is captured for an outcome, false if it is passed through.
    pub capture: bool,
    /// A session's directory, to work in instead of `cwd`.
    pub session: Option<HostWorkspace>,
    /// Credentials that the network helper puts into requests.
    pub interception: Option<Interception>,
    /// Logins by the user's SSH agent.
    pub ssh_agent: Option<SshAgentFacts>,
    /// Directories of Ringfence's own that the run sees below its home and may write.
    pub mapped: Vec<MappedDir>,
}

/// A directory that a run sees under another name.
#[derive(Clone, Debug, Serialize)]
pub struct MappedDir {
    /// The directory.
    pub found: Found,
    /// Its name below the home.
    pub at: PathBuf,
}

/// The run's side of the user's SSH agent.
#[derive(Clone, Debug, Serialize)]
pub struct SshAgentFacts {
    /// The grants.
    pub plan: SshAgentPlan,
    /// Keys of the granted hosts, as lines for ssh(1).
    pub known_hosts: String,
    /// The system's settings of ssh(1), if there are any, after every link.
    pub client_settings: Option<(PathBuf, String)>,
}

/// The run's side of credentials that it uses without having them.
#[derive(Clone, Debug, Serialize)]
pub struct Interception {
    /// The system's certificates and that of the run's own authority.
    pub certificates: String,
    /// Files of the system's certificates, each after every link: the run sees the text above instead.
    pub bundles: Vec<PathBuf>,
    /// The same certificates in the format of Java's stores.
    pub java_store: Vec<u8>,
    /// Java's stores on this host, each after every link.
    pub java_stores: Vec<PathBuf>,
    /// Variables and their placeholders.
    pub placeholders: Vec<(String, String)>,
    /// Files that hold a credential.
    pub hidden: Vec<Found>,
    /// The secrets of the policy, and for a file every link on the way to it and the file itself; `None` for one that must not
    /// be read again.
    pub sources: Vec<Option<(SecretGrant, Vec<PathBuf>)>>,
}

/// A session's directory, which outlives its runs and is seen under another name.
#[derive(Clone, Debug, Serialize)]
pub struct HostWorkspace {
    /// The directory.
    pub found: Found,
    /// Owner of the directory, and of the files made in it.
    pub owner: (u32, u32),
    /// Name of the session, inside too.
    pub session: String,
    /// Access to its files.
    pub access: Access,
}

impl HostWorkspace {
    /// Variables that a run of the session has besides.
    pub(crate) fn environment(&self) -> [(OsString, OsString); 2] {
        let directory = crate::view::WORKSPACE.into();
        [("SESSION_ID".into(), self.session.clone().into()), ("SESSION_DIR".into(), directory)]
    }

    /// The directory whose growth counts against a run's disk limit.
    pub(crate) fn writable_dir(&self) -> WritableDir {
        WritableDir { path: self.found.path.clone(), id: self.found.id }
    }

    /// The directory where its runs see it.
    pub(crate) fn mount(&self, identity: &Identity) -> Mount {
        let Found { path, id, .. } = &self.found;
        let idmapped = identity.disk_owner.is_some();
        Mount::Bind {
            source: BindSource::Host { path: path.clone(), id: *id, idmapped },
            at: crate::view::WORKSPACE.into(),
            access: self.access,
        }
    }
}
