//! What the filter should answer, written down a second time and by hand: no line is shared with
//! the rules or the compiler, only the names of the calls.

use ringfence_plan::seccomp::{
    Action, Arch, FilterSpec, Inet, Ipc, Observe, Profile, SeccompData, SharedMemory, UnixSockets,
    name,
};
use std::collections::HashSet;
use std::sync::LazyLock;

const EPERM: u16 = 1;
const ENOMEM: u16 = 12;
const EACCES: u16 = 13;
const ENOSYS: u16 = 38;
const EPROTONOSUPPORT: u16 = 93;
const EOPNOTSUPP: u16 = 95;
const EAFNOSUPPORT: u16 = 97;

/// Command runs: refused whatever the arguments.
const REFUSED: &str = "\
    mount umount2 pivot_root move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick \
    mount_setattr chroot setns ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd \
    add_key request_key keyctl bpf perf_event_open userfaultfd io_uring_setup io_uring_enter \
    io_uring_register open_by_handle_at quotactl quotactl_fd acct swapon swapoff settimeofday \
    clock_settime clock_adjtime adjtimex reboot kexec_load kexec_file_load init_module \
    finit_module delete_module iopl ioperm modify_ldt lookup_dcookie nfsservctl vhangup syslog \
    sethostname setdomainname fanotify_init fanotify_mark memfd_secret process_madvise \
    process_mrelease";

/// Every run: as if the kernel did not have them.
const ABSENT: &str = "\
    clone3 openat2 uselib ustat sysfs _sysctl create_module query_module get_kernel_syms afs_syscall \
    tuxcall security vserver getpmsg putpmsg epoll_ctl_old epoll_wait_old set_thread_area \
    get_thread_area statmount listmount listns lsm_get_self_attr lsm_set_self_attr \
    lsm_list_modules cachestat";

/// Command runs without an ipc namespace: refused whatever the arguments.
const IPC: &str = "\
    semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend \
    mq_timedreceive mq_notify mq_getsetattr shmget shmat shmctl";

/// Code runs: allowed whatever the arguments.
const CODE: &str = "\
    read write close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction \
    rt_sigprocmask rt_sigreturn pread64 pwrite64 readv writev access pipe select sched_yield \
    mremap msync mincore madvise dup dup2 pause nanosleep getitimer alarm setitimer getpid \
    sendfile sendto recvfrom sendmsg recvmsg shutdown getsockname getpeername getsockopt exit \
    wait4 kill uname fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir \
    rename mkdir rmdir link unlink symlink readlink chown fchown lchown umask gettimeofday \
    getrlimit getrusage sysinfo times getuid getgid geteuid getegid getppid getpgrp getgroups \
    getresuid getresgid getpgid getsid capget rt_sigpending rt_sigtimedwait rt_sigqueueinfo \
    rt_sigsuspend sigaltstack utime statfs fstatfs getpriority sched_getparam sched_getscheduler \
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock arch_prctl \
    setrlimit gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr \
    llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex sched_getaffinity \
    epoll_create getdents64 set_tid_address restart_syscall fadvise64 timer_create timer_settime \
    timer_gettime timer_getoverrun timer_delete clock_gettime clock_getres clock_nanosleep \
    exit_group epoll_wait epoll_ctl tgkill utimes mbind set_mempolicy get_mempolicy waitid \
    ioprio_get mkdirat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat \
    faccessat pselect6 ppoll set_robust_list get_robust_list sync_file_range utimensat epoll_pwait \
    signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime signalfd4 eventfd2 \
    epoll_create1 dup3 pipe2 preadv pwritev rt_tgsigqueueinfo getcpu sched_getattr renameat2 \
    getrandom membarrier mlock2 copy_file_range preadv2 pwritev2 statx rseq uretprobe uprobe \
    pidfd_send_signal pidfd_open close_range faccessat2 epoll_pwait2 futex_waitv map_shadow_stack \
    futex_wake futex_wait futex_requeue mseal setxattrat getxattrat listxattrat removexattrat";

/// What a call should come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    Allow,
    /// Refused with this error, by the listener if there is one.
    Denial(u16),
    /// Refused with this error by the filter itself.
    Quiet(u16),
    /// Answered with success by the filter itself, and not carried out.
    Done,
    Kill,
}

impl Want {
    pub(crate) fn action(self, observe: Observe) -> Action {
        match (self, observe) {
            (Want::Allow, _) => Action::Allow,
            (Want::Denial(_), Observe::Notify) => Action::Notify,
            (Want::Denial(errno), Observe::Errno) | (Want::Quiet(errno), _) => Action::Errno(errno),
            (Want::Done, _) => Action::Errno(0),
            (Want::Kill, _) => Action::KillProcess,
        }
    }
}

pub(crate) fn want(spec: FilterSpec, data: &SeccompData) -> Want {
    let audit = match spec.arch {
        Arch::X86_64 => 0xC000_003E,
        Arch::Aarch64 => 0xC000_00B7,
    };
    if data.arch != audit {
        return Want::Kill;
    }
    // x32 numbers are in no table either.
    let Some(call) = i32::try_from(data.nr).ok().and_then(|nr| name(spec.arch, nr)) else {
        return Want::Quiet(ENOSYS);
    };
    // The kernel's view of an `int` parameter.
    #[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
    let int = |i: usize| i64::from(data.args[i] as u32);
    if LISTS[1].contains(call) {
        return Want::Quiet(ENOSYS);
    }
    if spec.ipc == Ipc::Refused && SETS_ATTRIBUTES.contains(&call) {
        return Want::Quiet(EOPNOTSUPP);
    }
    if call == "fcntl" && int(1) == 1031 && int(2) > 65_536 {
        return Want::Quiet(EPERM);
    }
    // A code run gets the same error for all that watches others.
    if call == "fcntl" && int(1) == 1024 {
        return Want::Denial(EPERM);
    }
    // SO_PEERPIDFD.
    if call == "getsockopt" && (int(1), int(2)) == (1, 77) {
        return Want::Quiet(92);
    }
    if let Some(want) = mode(call, int).or_else(|| limits(spec, call, int)) {
        let core = match call {
            "setrlimit" => int(0) == 4,
            // A pointer is 64 bits wide.
            "prlimit64" => int(1) == 4 && data.args[2] != 0,
            _ => false,
        };
        return if core && want == Want::Allow { Want::Done } else { want };
    }
    match spec.profile {
        Profile::CodeWithProcesses if call == "socket" && int(0) == 1 => Want::Quiet(EPERM),
        Profile::CodeWithProcesses if call == "clone" => command(spec, call, int),
        Profile::CodeWithProcesses if STARTS_PROCESSES.contains(&call) => Want::Allow,
        Profile::Code | Profile::CodeWithProcesses => code(spec, call, int),
        Profile::Zygote if BUILDS_FENCES.contains(&call) => Want::Allow,
        Profile::Zygote if matches!(call, "socket" | "connect") => code(spec, call, int),
        Profile::Command | Profile::Zygote => command(spec, call, int),
    }
}

/// Refused without namespaces: Landlock has no right for attributes.
const SETS_ATTRIBUTES: &[&str] = &[
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "removexattrat",
];

/// What code may do besides where it has child processes, except to make namespaces by clone.
const STARTS_PROCESSES: &[&str] = &["fork", "vfork", "execve", "execveat"];

/// What a zygote may do that a command may not: build a fence.
const BUILDS_FENCES: &[&str] = &[
    "clone",
    "unshare",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
];

/// Calls that give a file its mode, alike in every run.
fn mode(call: &str, int: impl Fn(usize) -> i64) -> Option<Want> {
    let refused = match call {
        "open" => creates(int(1)) && privileged(int(2)),
        "openat" => creates(int(2)) && privileged(int(3)),
        "creat" | "chmod" | "fchmod" => privileged(int(1)),
        "fchmodat" | "fchmodat2" => privileged(int(2)),
        "mknod" => device(int(1)) || privileged(int(1)),
        "mknodat" => device(int(2)) || privileged(int(2)),
        // RENAME_WHITEOUT leaves a device behind.
        "renameat2" => int(4) / 4 % 2 == 1,
        _ => return None,
    };
    Some(deny_if(refused, EPERM))
}

/// Calls that set a process's limits and scheduling, of which code has the first three.
fn limits(spec: FilterSpec, call: &str, int: impl Fn(usize) -> i64) -> Option<Want> {
    let own = match call {
        // Has no id: the caller's own.
        "setrlimit" => true,
        "prlimit64" | "sched_setaffinity" => int(0) == 0,
        _ if matches!(spec.profile, Profile::Code | Profile::CodeWithProcesses) => return None,
        "sched_setparam" | "sched_setscheduler" | "sched_setattr" => int(0) == 0,
        "setpriority" => (int(0), int(1)) == (0, 0),
        "ioprio_set" => (int(0), int(1)) == (1, 0),
        _ => return None,
    };
    Some(deny_if(spec.ipc == Ipc::Refused && !own, EPERM))
}

#[expect(clippy::match_same_arms, reason = "an arm is a cause, not an answer")]
fn command(spec: FilterSpec, call: &str, int: impl Fn(usize) -> i64) -> Want {
    let supervised =
        spec.unix_sockets == UnixSockets::Supervised && spec.observe == Observe::Notify;
    let redirected = spec.inet == Inet::Redirected && spec.observe == Observe::Notify;
    match call {
        _ if LISTS[0].contains(call) => Want::Denial(EPERM),
        _ if spec.ipc == Ipc::Refused && LISTS[3].contains(call) => Want::Denial(EPERM),
        "file_setattr" if spec.ipc == Ipc::Refused => Want::Quiet(EOPNOTSUPP),
        "clone" => deny_if(new_namespace(int(0)), EPERM),
        "unshare" => deny_if(new_namespace(int(0)) || int(0) / 0x80 % 2 == 1, EPERM),
        "personality" => deny_if(![0, 0xffff_ffff, 0x40000].contains(&int(0)), EPERM),
        "prctl" => deny_if(int(0) == 35, EPERM),
        "ioctl" => deny_if(terminal(int(1)) || filesystem(int(1)), EPERM),
        "migrate_pages" | "move_pages" => deny_if(int(0) != 0, EPERM),
        "memfd_create" | "shmget" | "shmat" | "shmctl"
            if spec.shared_memory == SharedMemory::Refused =>
        {
            Want::Denial(EPERM)
        }
        "mmap" => deny_if(int(3) >> 18 & 1 == 1, ENOMEM),
        "memfd_create" => deny_if(int(1) >> 2 & 1 == 1, ENOMEM),
        "shmget" => deny_if(int(2) >> 11 & 1 == 1, ENOMEM),
        "connect" => deny_if(supervised || redirected, EACCES),
        "bind" | "listen" | "accept" | "accept4" => deny_if(redirected, EACCES),
        "setsockopt" if redirected => match (int(1), int(2)) {
            (1, 2 | 7..=10 | 12 | 13 | 15 | 18 | 20 | 21 | 66 | 67)
            | (6, 1..=8 | 12 | 13 | 18 | 25)
            | (0, 1 | 10 | 11 | 24)
            | (41, 25 | 26 | 67) => Want::Allow,
            _ => Want::Quiet(92),
        },
        "sendto" | "sendmmsg" => deny_if(int(3) >> 29 & 1 == 1, EOPNOTSUPP),
        "sendmsg" => deny_if(int(2) >> 29 & 1 == 1, EOPNOTSUPP),
        "socketpair" => match (int(0), int(1) % 16) {
            (1, 1 | 5) => Want::Allow,
            (1, _) => Want::Denial(EACCES),
            _ => Want::Denial(EAFNOSUPPORT),
        },
        "socket" => match (int(0), int(1) % 16, int(2)) {
            (1, 1 | 5, _) if supervised => Want::Allow,
            (1, ..) => Want::Denial(EACCES),
            (2 | 10, ..) if spec.inet == Inet::Refused => Want::Denial(EACCES),
            (2 | 10, 2, _) if redirected => Want::Denial(EACCES),
            (2 | 10, ..) if spec.inet == Inet::Redirected && !redirected => Want::Denial(EACCES),
            (2 | 10, 1 | 2, 0 | 6 | 17) => Want::Allow,
            (2 | 10, 1 | 2, 1 | 58) => Want::Denial(EACCES),
            (2 | 10, 1 | 2, 262) => Want::Quiet(EPROTONOSUPPORT),
            (2 | 10, 1 | 2, _) => Want::Denial(EPROTONOSUPPORT),
            (2 | 10, ..) => Want::Denial(EPERM),
            _ => Want::Denial(EAFNOSUPPORT),
        },
        _ => Want::Allow,
    }
}

fn code(spec: FilterSpec, call: &str, int: impl Fn(usize) -> i64) -> Want {
    let may_start = spec.profile == Profile::CodeWithProcesses;
    match call {
        // Shared with nobody, or growing by itself: memory that no limit on data counts.
        "mmap" if int(3) >> 18 & 1 == 1 => Want::Denial(ENOMEM),
        "mmap" => {
            let anonymous = int(3) >> 5 & 1 == 1;
            deny_if(int(3) >> 8 & 1 == 1 || anonymous && int(3) & 1 == 1, EPERM)
        }
        "fcntl" => deny_if([10, 1024, 1026].contains(&int(1)), EPERM),
        // SIGCONT.
        "kill" | "tkill" | "rt_sigqueueinfo" | "pidfd_send_signal" if !may_start => {
            deny_if(int(1) == 18, EPERM)
        }
        "tgkill" | "rt_tgsigqueueinfo" if !may_start => deny_if(int(2) == 18, EPERM),
        "timer_create" => deny_if(!may_start, EPERM),
        "sendmsg" => deny_if(spec.observe == Observe::Errno, EPERM),
        _ if LISTS[2].contains(call) => Want::Allow,
        "clone" => deny_if(new_namespace(int(0)) || int(0) >> 16 & 1 == 0, EPERM),
        "memfd_create" if spec.shared_memory == SharedMemory::Allowed => {
            deny_if(int(1) >> 2 & 1 == 1, ENOMEM)
        }
        "ioctl" => {
            let asked = [0x5401, 0x802C_542A, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451];
            deny_if(!asked.contains(&int(1)), EPERM)
        }
        "prctl" => {
            let asked = [15, 0x5356_4d41, 2, 3, 7, 13, 16, 21, 23, 27, 30, 37, 39, 40, 42, 52];
            deny_if(!asked.contains(&int(0)), EPERM)
        }
        "socketpair" => match (int(0), int(1) % 16) {
            (1, 1) => Want::Allow,
            (1, _) => Want::Denial(EPERM),
            _ => Want::Denial(EAFNOSUPPORT),
        },
        _ => Want::Denial(EPERM),
    }
}

/// Looked up millions of times, so split once.
static LISTS: LazyLock<[HashSet<&str>; 4]> =
    LazyLock::new(|| [REFUSED, ABSENT, CODE, IPC].map(|list| list.split_whitespace().collect()));

fn deny_if(refused: bool, errno: u16) -> Want {
    if refused { Want::Denial(errno) } else { Want::Allow }
}

/// `CLONE_NEWNS`, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET by their bit numbers.
fn new_namespace(flags: i64) -> bool {
    [17, 25, 26, 27, 28, 29, 30].iter().any(|bit| flags >> bit & 1 == 1)
}

fn terminal(request: i64) -> bool {
    [0x5412, 0x541C, 0x541D, 0x5423].contains(&request)
}

/// Requests by which a filesystem shows or changes what a mount over it hides: kind, then number.
fn filesystem(request: i64) -> bool {
    match (request / 0x100 % 0x100, request % 0x100) {
        (0x94, 9) => request != 0x4004_9409,
        (0x94, 13) => request != 0x4020_940D,
        (0x94, 54) => request != 0xC018_9436,
        (0x94 | 0xBC, _) | (0x58, 63 | 107 | 108 | 122 | 123) | (0x66, 19 | 23..=25) => true,
        _ => false,
    }
}

/// `S_IFCHR` and `S_IFBLK`.
fn device(mode: i64) -> bool {
    matches!(mode & 0o170_000, 0o020_000 | 0o060_000)
}

/// `S_ISUID` and `S_ISGID`, in the sixteen bits of a mode the kernel takes.
fn privileged(mode: i64) -> bool {
    let mode = mode % 0x1_0000;
    mode / 0o4000 % 2 == 1 || mode / 0o2000 % 2 == 1
}

/// `O_CREAT` and `__O_TMPFILE` by their bit numbers.
fn creates(flags: i64) -> bool {
    flags >> 6 & 1 == 1 || flags >> 22 & 1 == 1
}
