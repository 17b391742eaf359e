//! Facts about the host: identity, kernel features, which catalogue names exist.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ringfence_plan::seccomp::Arch;
use ringfence_plan::{
    CallerIds, CoreDumps, FileId, FileKind, Found, HomeEntry, HostFacts, Identity, NetworkCapture,
    RootEntry, SystemText, UserNamespaces, catalogue,
};
use ringfence_spec::{Code, CommandPreset, Problem};
use ringfence_sys::untrusted::{self, open_absolute, read_trusted};
use ringfence_sys::{Budget, CallError, Named as _, read_kernel_file};
use rustix::fs::{Mode, OFlags};
use rustix::thread::SecureComputingMode;

use super::paths::resolve;
use super::tree::kind_of;
use crate::cgroup;
use crate::open::id_of;
use crate::registry::Registry;

/// First of the ids that runs of a root caller get on the host: above the ranges that distributions, systemd and
/// subordinate ids use, below 2^31.
const STAND_IN_FIRST: u32 = 1_900_000_000;

/// Maximum number of entries of a home that are listed; in a larger one each name is looked up.
const HOME_NAMES_MAX: u32 = 500;

/// Maximum size of the list of users.
const PASSWD_BYTES_MAX: u64 = 16 << 20;

/// Flags to open a directory of the host's for listing.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The caller and its surroundings.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Ringfence's state directory, never visible to a run.
    pub state: PathBuf,
    /// Ringfence's settings, never visible to a run.
    pub config: Option<PathBuf>,
    /// The directory that a run works in and may have written before.
    pub cwd: Option<PathBuf>,
}

/// The caller's user and group ids.
pub(crate) fn caller_ids() -> CallerIds {
    caller_ids_of(rustix::process::getpid())
}

/// The same for runs that another process of the same user plans.
pub(crate) fn caller_ids_of(planner: rustix::process::Pid) -> CallerIds {
    // Constant for the life of this process, and needed twice on the way to a run.
    static MAP: OnceLock<String> = OnceLock::new();
    let uid = rustix::process::geteuid().as_raw();
    let map = MAP.get_or_init(|| read_kernel_file("/proc/self/uid_map").unwrap_or_default());
    let mapped = mapped(uid, map);
    CallerIds {
        uid,
        gid: rustix::process::getegid().as_raw(),
        host_root: uid == 0 && matches!(mapped, Mapped::AsItIs),
        root_outside: match mapped {
            Mapped::AsItIs => false,
            Mapped::To(outside) => outside == 0,
            Mapped::Unknown => uid == 0,
        },
        stand_in_id: STAND_IN_FIRST + planner.as_raw_nonzero().get().unsigned_abs() % (1 << 22),
    }
}

/// Surveys the host.
pub fn host_facts(caller: &Caller, preset: CommandPreset) -> Result<HostFacts, Problem> {
    let arch = Arch::NATIVE.ok_or_else(|| {
        Problem::cannot_build(Code::Architecture, "this processor architecture is not supported")
    })?;
    let ids = caller_ids();
    let homes = homes(caller, ids.uid);
    let contents: Vec<Contents<'_>> = homes.iter().map(|home| Contents::of(home)).collect();
    let mut secrets =
        existing(contents.iter().flat_map(|home| home.candidates(catalogue::HOME_SECRETS)));
    secrets.extend(existing([caller.state.clone()]));
    secrets.extend(existing(caller.config.clone()));
    let home_entries = home_entries(caller, &homes, &contents, &secrets);
    // A toolchain's directory may lie outside the places where the catalogue finds its secrets, or be a link.
    let is_usual = |path: &&PathBuf| {
        let below = homes.iter().filter_map(|home| path.strip_prefix(home).ok()?.to_str());
        below.into_iter().any(|name| catalogue::HOME_VISIBLE.contains(&name))
    };
    let sources = home_entries.iter().map(|entry| &entry.source.path);
    let unusual = sources.filter(|path| !is_usual(path));
    let names = unusual.flat_map(|dir| catalogue::TOOL_SECRETS.iter().map(|name| dir.join(name)));
    secrets.extend(existing(names));
    let reader = Reader::of(ids);
    let kernel = KernelFeatures::get();
    Ok(HostFacts {
        arch,
        ids,
        groups: reader.groups.clone(),
        user_namespaces: UserNamespaces::Usable,
        landlock_abi: kernel.landlock_abi,
        seccomp_filter: kernel.seccomp_filter,
        // One listener per process: under an outer fence that has one, a second is refused with EBUSY.
        seccomp_notify: kernel.seccomp_notify && !under_a_filter(),
        network_capture: NetworkCapture::Usable,
        cgroup: cgroup::facts(&cgroup::find_parent()),
        hides_processes: hides_processes(),
        core_dumps: core_dumps().0,
        environment: caller.environment.clone(),
        system: system(preset),
        system_masks: system_masks(preset, &reader),
        system_texts: system_texts(preset),
        home_entries,
        homes,
        other_homes: if ids.uid == 0 { homes_of_others() } else { Vec::new() }
            .into_iter()
            .filter(|home| is_private(home))
            .collect(),
        secrets,
        proc_masks: reader.readable(catalogue::PROC_MASKS.iter().map(PathBuf::from)),
        sysfs: catalogue::SYSFS.iter().map(PathBuf::from).filter_map(as_it_is).collect(),
    })
}

/// Returns true if `/proc` hides processes: everyone may read this file of the first one otherwise.
fn hides_processes() -> bool {
    rustix::fs::access("/proc/1/stat", rustix::fs::Access::READ_OK).is_err()
}

/// Features of the kernel, which stay as they are.
#[derive(Clone, Copy)]
struct KernelFeatures {
    landlock_abi: u32,
    seccomp_filter: bool,
    seccomp_notify: bool,
}

impl KernelFeatures {
    fn get() -> Self {
        static FEATURES: OnceLock<KernelFeatures> = OnceLock::new();
        *FEATURES.get_or_init(|| Self {
            landlock_abi: ringfence_sys::landlock_abi(),
            seccomp_filter: ringfence_sys::seccomp::filter_available(),
            seccomp_notify: ringfence_sys::seccomp::notify_available(),
        })
    }
}

/// Core dumps on this host, and `kernel.core_pattern` itself.
pub(crate) fn core_dumps() -> (CoreDumps, String) {
    let pattern = read_kernel_file("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Core);
    (CoreDumps::new(&pattern, limit.maximum), pattern.trim_end().to_owned())
}

/// The file at `path`, after every link, if there is one.
pub fn found(path: &Path) -> Option<Found> {
    resolve(path).ok().map(|resolved| resolved.found)
}

/// The entries of a directory, at most `n_max`; none if it cannot be listed.
pub fn entries_of(directory: &Path, n_max: usize) -> Vec<PathBuf> {
    let Ok(dir) = open_absolute(directory) else { return Vec::new() };
    let Ok(dir) = untrusted::open_directory_beneath(&dir, Path::new(".")) else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    let _ = untrusted::list(&dir, &Budget::unlimited(), |name, _| {
        entries.push(directory.join(name));
        if entries.len() < n_max {
            std::ops::ControlFlow::Continue(())
        } else {
            std::ops::ControlFlow::Break(())
        }
    });
    entries
}

/// The program that the first line of a script names, with a carriage return that belongs to it: execve(2),
/// "Interpreter scripts". `path` is canonical.
pub fn interpreter_line(path: &Path) -> Option<String> {
    use std::io::Read as _;
    // The kernel reads as many bytes: BINPRM_BUF_SIZE.
    let mut start = Vec::with_capacity(256);
    untrusted::open_file(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let name = line.trim_start_matches([' ', '\t']).split([' ', '\t']).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Files that are replaced, each where it lies after every link.
fn system_texts(preset: CommandPreset) -> Vec<SystemText> {
    let place = |path: &Path| match look(path) {
        Some((FileKind::File, _)) => Some(path.to_owned()),
        Some((FileKind::Symlink, _)) => {
            found(path).filter(|found| found.kind == FileKind::File).map(|found| found.path)
        }
        // The preset has an `/etc` of its own, in which it can be made.
        _ => (preset == CommandPreset::Minimal).then(|| path.to_owned()),
    };
    let texts = catalogue::SYSTEM_TEXTS.iter();
    texts
        .filter_map(|(path, kind)| Some(SystemText { at: place(Path::new(path))?, kind: *kind }))
        .collect()
}

/// The file at `path` itself, link not followed.
pub(super) fn look(path: &Path) -> Option<(FileKind, FileId)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (kind(&meta), id(&meta)))
}

/// The same with its path.
pub(super) fn as_it_is(path: PathBuf) -> Option<Found> {
    look(&path).map(|(kind, id)| Found { path, kind, id })
}

/// The file at a path that has no links. `asked` is the same path as written.
pub(super) fn found_at(path: PathBuf, asked: &Path) -> Result<Found, CallError> {
    let fd = open_absolute(asked)?;
    let stat = rustix::fs::fstat(&fd).named(|| "fstat")?;
    Ok(Found { kind: kind_of(&stat), id: id_of(&stat), path })
}

fn id(meta: &std::fs::Metadata) -> FileId {
    FileId { dev: meta.dev(), ino: meta.ino() }
}

fn kind(meta: &std::fs::Metadata) -> FileKind {
    let t = meta.file_type();
    match () {
        () if t.is_dir() => FileKind::Directory,
        () if t.is_file() => FileKind::File,
        () if t.is_symlink() => FileKind::Symlink,
        () if t.is_socket() => FileKind::Socket,
        () => FileKind::Other,
    }
}

/// Those of `paths` that exist. A link counts as itself and, where it leads somewhere, as that place too.
fn existing(paths: impl IntoIterator<Item = PathBuf>) -> Vec<Found> {
    let mut found = Vec::new();
    for path in paths {
        let Some(itself) = as_it_is(path) else { continue };
        // By another name too, where there is a link on the way or at the end.
        found.extend(self::found(&itself.path).filter(|target| target.path != itself.path));
        found.push(itself);
    }
    found
}

/// Mapping of this process's user by its user namespace.
enum Mapped {
    /// The initial namespace, which maps every id to itself.
    AsItIs,
    /// This user outside.
    To(u32),
    /// No mapping is known.
    Unknown,
}

fn mapped(uid: u32, map: &str) -> Mapped {
    let numbers: Vec<u32> = map.split_whitespace().flat_map(str::parse).collect();
    if numbers == [0, 0, u32::MAX] {
        return Mapped::AsItIs;
    }
    let outside = numbers.chunks_exact(3).find_map(|range| {
        let offset = uid.checked_sub(range[0]).filter(|offset| *offset < range[2])?;
        range[1].checked_add(offset)
    });
    outside.map_or(Mapped::Unknown, Mapped::To)
}

fn groups(gid: u32) -> Vec<u32> {
    let mut groups: Vec<u32> = rustix::process::getgroups()
        .unwrap_or_default()
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .filter(|g| *g != gid)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Returns true if a filter is installed in this process and a second listener is refused.
fn under_a_filter() -> bool {
    let mode = rustix::thread::secure_computing_mode();
    !matches!(mode, Ok(SecureComputingMode::Disabled)) && !second_listener_works()
}

/// Tries it in a child, because a filter cannot be removed again.
fn second_listener_works() -> bool {
    crate::probe::listener().is_ok()
}

fn homes(caller: &Caller, uid: u32) -> Vec<PathBuf> {
    let from_env = caller.environment.get(std::ffi::OsStr::new("HOME")).map(PathBuf::from);
    let mut named: Vec<PathBuf> = from_env.into_iter().chain(passwd_home(uid)).collect();
    named.dedup();
    let mut homes: Vec<PathBuf> = Vec::new();
    for home in named {
        let Some(found) = found(&home) else { continue };
        let usable = found.kind == FileKind::Directory && found.path != Path::new("/");
        if usable && !homes.contains(&found.path) {
            homes.push(found.path);
        }
    }
    homes
}

fn passwd_home(uid: u32) -> Option<PathBuf> {
    let passwd = read_trusted(Path::new("/etc/passwd"), PASSWD_BYTES_MAX).ok()?;
    String::from_utf8_lossy(&passwd).lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let matches = fields.next()?.parse() == Ok(uid);
        matches.then(|| fields.nth(2).map(PathBuf::from)).flatten()
    })
}

/// The names at the top of a home, and in the directories there of which the catalogue names much, read at once: asking
/// for each name costs a lookup apiece.
struct Contents<'a> {
    home: &'a Path,
    names: Option<HashSet<OsString>>,
    below: Vec<(&'static str, HashSet<OsString>)>,
}

/// Those directories.
const CROWDED: [&str; 1] = [".config"];

impl<'a> Contents<'a> {
    fn of(home: &'a Path) -> Self {
        let names = listed(home);
        let there = |name: &&str| names.as_ref().is_none_or(|n| n.contains(OsStr::new(name)));
        let crowded = CROWDED.into_iter().filter(there);
        let below = crowded.filter_map(|name| Some((name, listed(&home.join(name))?)));
        Self { home, below: below.collect(), names }
    }

    /// Those of `wanted` that can exist, judged by their first components.
    fn candidates(&self, wanted: &'static [&'static str]) -> impl Iterator<Item = PathBuf> {
        wanted.iter().filter(|name| self.can_have(name)).map(|name| self.home.join(name))
    }

    fn can_have(&self, name: &str) -> bool {
        let mut parts = name.split('/');
        let first = parts.next().unwrap_or(name);
        if self.names.as_ref().is_some_and(|names| !names.contains(OsStr::new(first))) {
            return false;
        }
        let below = self.below.iter().find(|(dir, _)| *dir == first);
        below
            .zip(parts.next())
            .is_none_or(|((_, names), second)| names.contains(OsStr::new(second)))
    }
}

/// The names in a directory; `None` if there are so many that single lookups are cheaper.
fn listed(dir: &Path) -> Option<HashSet<OsString>> {
    let dir = rustix::fs::open(dir, DIRECTORY, Mode::empty()).ok()?;
    let mut names: HashSet<OsString> = HashSet::new();
    let listed = untrusted::list(&dir, &Budget::entries(HOME_NAMES_MAX), |name, _| {
        names.insert(name.to_owned());
        ControlFlow::Continue(())
    });
    listed.is_ok().then_some(names)
}

fn home_entries(
    caller: &Caller,
    homes: &[PathBuf],
    contents: &[Contents<'_>],
    secrets: &[Found],
) -> Vec<HomeEntry> {
    let named = contents.iter().flat_map(|home| home.candidates(catalogue::HOME_VISIBLE));
    let registry = Registry::new(&caller.state);
    let by_variable = catalogue::ENV_DIRECTORIES.iter().filter_map(|name| {
        let value = caller.environment.get(std::ffi::OsStr::new(name))?;
        // Without a slash at the end, which would follow a link.
        let path: PathBuf = Path::new(value).components().collect();
        // A variable that names a home, or a directory above one, would expose the whole home.
        let broad = homes.iter().any(|home| home.starts_with(&path)) || !path.is_absolute();
        // The last link on the way to a workspace, or a link in one, may have been made by a run.
        let resolved = resolve(&path).ok().filter(|_| !broad)?;
        let planted = resolved.links.iter().any(|(link, _)| {
            caller.cwd.as_ref().is_some_and(|cwd| link.starts_with(cwd))
                || registry.written_by_runs(link).is_some()
        });
        (!planted && resolved.found.kind == FileKind::Directory).then_some(path)
    });
    let mut entries: Vec<HomeEntry> = Vec::new();
    for at in named.chain(by_variable) {
        let Some((kind, id)) = look(&at) else { continue };
        // Homes are canonical, and so is an entry of one that is not a link.
        let is_canonical = kind != FileKind::Symlink
            && at.file_name().is_some()
            && homes.iter().any(|home| at.parent() == Some(home));
        let source = if is_canonical {
            Found { path: at.clone(), kind, id }
        } else {
            let Some(source) = found(&at) else { continue };
            source
        };
        // A link to a secret, to the home itself, or to a path that the run has of its own shows nothing.
        let broad = homes.iter().any(|home| home.starts_with(&source.path))
            || secrets.iter().any(|secret| source.path.starts_with(&secret.path))
            || catalogue::RUN_OWN_DIRECTORIES.iter().any(|own| source.path.starts_with(own));
        let plain = matches!(source.kind, FileKind::Directory | FileKind::File);
        // Mounts go where the real directories are: a link above would have to be followed to get there.
        let at = match (at.parent().filter(|_| !is_canonical), at.file_name()) {
            (None, Some(_)) => at,
            (Some(parent), Some(name)) => match found(parent) {
                Some(parent) => parent.path.join(name),
                None => continue,
            },
            _ => continue,
        };
        if !broad && plain && !entries.iter().any(|e| e.at == at) {
            entries.push(HomeEntry { at, source });
        }
    }
    entries
}

fn system(preset: CommandPreset) -> Vec<RootEntry> {
    let mut names: Vec<&str> = catalogue::SYSTEM.to_vec();
    if preset == CommandPreset::Minimal {
        names.extend(catalogue::MINIMAL_ETC);
    } else {
        names.extend(catalogue::SYSTEM_VAR);
    }
    let mut entries = Vec::new();
    for name in names {
        let path = PathBuf::from(name);
        match look(&path) {
            Some((FileKind::Symlink, _)) => {
                if let Ok(target) = rustix::fs::readlink(&path, Vec::new()) {
                    let target = OsStr::from_bytes(target.to_bytes()).into();
                    entries.push(RootEntry::Symlink { at: path, target });
                }
            }
            Some((kind, id)) => entries.push(RootEntry::Directory(Found { path, kind, id })),
            None => {}
        }
    }
    entries
}

fn system_masks(preset: CommandPreset, reader: &Reader) -> Vec<Found> {
    if preset == CommandPreset::Minimal {
        return Vec::new();
    }
    reader.readable(system_secrets().into_iter())
}

/// Secret files of the system, which need not exist.
fn system_secrets() -> Vec<PathBuf> {
    let (dir, prefix, suffix) = catalogue::SSH_HOST_KEYS;
    let mut keys = Vec::new();
    if let Ok(opened) = rustix::fs::open(dir, DIRECTORY, Mode::empty()) {
        let _ = untrusted::list(&opened, &Budget::unlimited(), |name, _| {
            let bytes = name.as_bytes();
            if bytes.starts_with(prefix.as_bytes()) && bytes.ends_with(suffix.as_bytes()) {
                keys.push(Path::new(dir).join(name));
            }
            ControlFlow::Continue(())
        });
    }
    keys.extend(catalogue::SYSTEM_SECRETS.iter().map(PathBuf::from));
    keys
}

/// Secrets of the system and of other users in what a run of root is granted. It has them as their owner, which root's own
/// runs are nowhere else.
pub(super) fn secrets_for_root(granted: &[&Found], other_homes: &[PathBuf]) -> Vec<Found> {
    let is_shown = |path: &PathBuf| granted.iter().any(|found| path.starts_with(&found.path));
    // Of a thousand homes one or none is near what is granted.
    let is_near = |home: &&PathBuf| {
        granted.iter().any(|f| home.starts_with(&f.path) || f.path.starts_with(home.as_path()))
    };
    let of_homes = other_homes
        .iter()
        .filter(is_near)
        .flat_map(|home| catalogue::HOME_SECRETS.iter().map(move |name| home.join(name)));
    let of_system = granted.iter().any(|found| is_of_etc(&found.path));
    let of_system = of_system.then(system_secrets).into_iter().flatten();
    existing(of_homes.chain(of_system).filter(is_shown))
}

fn is_of_etc(path: &Path) -> bool {
    path.starts_with("/etc") || Path::new("/etc").starts_with(path)
}

/// Homes of people besides the caller, as passwd names them: a run of root can be started in one. The directories they lie in
/// are resolved, once each: there may be thousands of homes in one, and `/home` may be a link.
pub(super) fn homes_of_others() -> Vec<PathBuf> {
    let passwd = read_trusted(Path::new("/etc/passwd"), PASSWD_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&passwd);
    let mut parents: HashMap<PathBuf, PathBuf> = HashMap::new();
    let home = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let uid: u32 = fields.get(2)?.parse().ok()?;
        let home = Path::new(fields.get(5)?);
        let (parent, name) = (home.parent()?, home.file_name()?);
        if !PEOPLE.contains(&uid) || !home.is_absolute() {
            return None;
        }
        let real = parents.entry(parent.to_owned()).or_insert_with_key(|parent| {
            found(parent).map_or_else(|| parent.clone(), |found| found.path)
        });
        Some(real.join(name))
    };
    let mut homes: Vec<PathBuf> = text.lines().filter_map(home).collect();
    if homes.len() <= RESOLVED_MAX {
        let real = homes.iter().filter_map(|home| found(home).map(|found| found.path));
        let real: Vec<PathBuf> = real.filter(|home| !homes.contains(home)).collect();
        homes.extend(real);
    }
    homes
}

/// Returns true if a home is where people have theirs. Others, such as `/app` in an image, are workspaces too.
pub(super) fn is_private(home: &Path) -> bool {
    home.parent().is_some_and(|parent| parent.ends_with("home"))
}

/// Number of homes up to which each is looked at for being a link: that takes some calls for each at every start.
const RESOLVED_MAX: usize = 16;

/// User ids of people. Services are below: `UID_MIN` of `login.defs(5)` was 500 before it was 1000. `nobody` is above.
const PEOPLE: std::ops::Range<u32> = 500..65_534;

/// The host identity by which a run's reads are judged.
struct Reader {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Reader {
    fn of(ids: CallerIds) -> Self {
        let who = Identity::of_caller(ids);
        // A root caller's run has another user, without groups.
        let groups = if ids.host_root { Vec::new() } else { groups(ids.gid) };
        Self { uid: who.host_uid, gid: who.host_gid, groups }
    }

    /// Those that are there, after links, and that permissions alone do not keep from the run, which therefore need a
    /// mask.
    fn readable(&self, paths: impl Iterator<Item = PathBuf>) -> Vec<Found> {
        let mut found = Vec::new();
        for mut path in paths {
            let Ok(mut meta) = std::fs::symlink_metadata(&path) else { continue };
            if meta.is_symlink() {
                let Some(target) = self::found(&path) else { continue };
                let Ok(there) = std::fs::symlink_metadata(&target.path) else { continue };
                (path, meta) = (target.path, there);
            }
            if self.may_open(&path, &meta) {
                found.push(Found { kind: kind(&meta), id: id(&meta), path });
            }
        }
        found
    }

    fn may_open(&self, path: &Path, meta: &std::fs::Metadata) -> bool {
        let group = meta.gid() == self.gid || self.groups.contains(&meta.gid());
        let bits = match () {
            // An owner can grant itself the missing permission.
            () if meta.uid() == self.uid => return true,
            () if group => 0o070,
            () => 0o007,
        };
        // An ACL can name further users; if there may be one, the mode alone does not decide.
        let lists = || rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut [0u8; 0][..]);
        meta.mode() & bits != 0 || lists().is_ok_and(|n| n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_other_users_are_found_for_root() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::create_dir_all(home.join("project")).unwrap();
        let homes = [home.clone()];
        let shown = |path: &Path| {
            let granted = found_at(path.to_owned(), path).unwrap();
            secrets_for_root(&[&granted], &homes).into_iter().map(|found| found.path)
        };
        assert!(shown(&home).any(|path| path == home.join(".ssh")));
        assert!(shown(home.parent().unwrap()).any(|path| path == home.join(".ssh")));
        assert_eq!(shown(&home.join("project")).count(), 0);
        let passwords = PathBuf::from("/etc/shadow");
        assert_eq!(shown(Path::new("/etc")).any(|path| path == passwords), passwords.exists());
    }

    #[test]
    fn who_a_user_is_outside() {
        let outside = |uid, map| match mapped(uid, map) {
            Mapped::AsItIs => "itself".to_owned(),
            Mapped::To(uid) => uid.to_string(),
            Mapped::Unknown => "unknown".to_owned(),
        };
        assert_eq!(outside(0, "         0          0 4294967295\n"), "itself");
        assert_eq!(outside(0, "0 0 1"), "0");
        assert_eq!(outside(0, "0 1000 1\n1 100000 65536"), "1000");
        assert_eq!(outside(7, "0 1000 1\n1 100000 65536"), "100006");
        assert_eq!(outside(1000, "1000 0 1"), "0");
        assert_eq!(outside(1000, "0 0 1"), "unknown");
        assert_eq!(outside(0, ""), "unknown");
        assert_eq!(outside(9, "1 4294967295 10"), "unknown");
    }
}
