//! The helper's own fence. It parses bytes that a run sent, so it must not be able to start a program, to read the
//! user's files or to touch another process.

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use ringfence_sys::seccomp::Instruction;
use ringfence_sys::{CallError, Named as _};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

/// Memory that the helper may use: the buffers of some thousand connections.
const DATA_BYTES_MAX: u64 = 1 << 30;

/// Directories it reads: settings of the resolver and trusted certificates. Directories, because such files are replaced
/// by renaming.
const READABLE: &[&str] = &[
    "/etc",
    "/run/NetworkManager",
    "/run/connman",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/pki",
    "/var/lib/ca-certificates",
];

/// System calls that it never needs and an intruder would: programs, processes, mounts, the kernel's own interfaces.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_clone,
    libc::SYS_clone3,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_socketpair,
    libc::SYS_listen,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_open_by_handle_at,
    libc::SYS_personality,
    libc::SYS_memfd_create,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_capset,
];

/// Confines this process. It has one thread and never gets a second.
pub(crate) fn confine(user: Option<(u32, u32)>) -> Result<(), CallError> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .named(|| "prctl(PR_SET_DUMPABLE, 0)")?;
    let files = rustix::process::getrlimit(Resource::Nofile).maximum;
    let files = Rlimit { current: files, maximum: files };
    rustix::process::setrlimit(Resource::Nofile, files).named(|| "setrlimit(NOFILE)")?;
    for (resource, most) in [(Resource::Data, DATA_BYTES_MAX), (Resource::Core, 0)] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        rustix::process::setrlimit(resource, limit).named(|| format!("setrlimit({resource:?})"))?;
    }
    if let Some((uid, gid)) = user {
        let (uid, gid) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(gid));
        rustix::thread::set_thread_groups(&[]).named(|| "setgroups")?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).named(|| "setresgid")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).named(|| "setresuid")?;
    }
    // After the change of user, which clears it. If the supervisor died before, its socket is closed.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .named(|| "prctl(PR_SET_PDEATHSIG)")?;
    rustix::thread::set_no_new_privs(true).named(|| "prctl(PR_SET_NO_NEW_PRIVS)")?;
    confine_files()?;
    // Last: it refuses the calls above.
    ringfence_sys::seccomp::install(&filter()?)
}

fn confine_files() -> Result<(), CallError> {
    let call =
        |error: &dyn std::fmt::Display| CallError::new(format!("landlock: {error}"), Errno::INVAL);
    let abi = ABI::V6;
    // As much of it as this kernel has: the filter and the user below it hold without.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .map_err(|e| call(&e))?;
    for path in READABLE {
        let Ok(directory) = PathFd::new(path) else { continue };
        ruleset = ruleset
            .add_rule(PathBeneath::new(directory, AccessFs::ReadFile | AccessFs::ReadDir))
            .map_err(|e| call(&e))?;
    }
    ruleset.restrict_self().map(|_| ()).map_err(|e| call(&e))
}

/// `AUDIT_ARCH`_* of linux/audit.h.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

/// Bit of the x32 calls, which are other names for the same calls.
const X32: u32 = 0x4000_0000;

fn filter() -> Result<Vec<Instruction>, CallError> {
    // linux/bpf_common.h: BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_JMP|BPF_JGE|BPF_K, BPF_RET|BPF_K.
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;
    const REFUSE: u32 = 0x0005_0000 | libc::EPERM.cast_unsigned();
    let step = |code, jt, jf, k| Instruction { code, jt, jf, k };
    let too_long = || CallError::new("seccomp filter of the network helper", Errno::INVAL);
    // struct seccomp_data: nr at 0, arch at 4.
    let mut filter = vec![
        step(LOAD, 0, 0, 4),
        step(IF_EQUAL, 1, 0, ARCH),
        step(RETURN, 0, 0, KILL),
        step(LOAD, 0, 0, 0),
        step(IF_AT_LEAST, 0, 1, X32),
        step(RETURN, 0, 0, KILL),
    ];
    let socket = u32::try_from(libc::SYS_socket).map_err(|_| too_long())?;
    // Over the comparisons below and both returns.
    let to_sockets = u8::try_from(REFUSED.len() + 2).map_err(|_| too_long())?;
    filter.push(step(IF_EQUAL, to_sockets, 0, socket));
    for (i, number) in REFUSED.iter().enumerate() {
        let number = u32::try_from(*number).map_err(|_| too_long())?;
        // Over the remaining comparisons and the allowing return.
        let to_refusal = u8::try_from(REFUSED.len() - i).map_err(|_| too_long())?;
        filter.push(step(IF_EQUAL, to_refusal, 0, number));
    }
    filter.push(step(RETURN, 0, 0, ALLOW));
    filter.push(step(RETURN, 0, 0, REFUSE));
    // socket(2): internet addresses and routes, and no unix socket of another program. The family is args[0], at 16.
    filter.push(step(LOAD, 0, 0, 16));
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    for (i, family) in families.iter().enumerate() {
        let to_allow = u8::try_from(families.len() - i).map_err(|_| too_long())?;
        filter.push(step(IF_EQUAL, to_allow, 0, family.cast_unsigned()));
    }
    filter.push(step(RETURN, 0, 0, REFUSE));
    filter.push(step(RETURN, 0, 0, ALLOW));
    Ok(filter)
}
