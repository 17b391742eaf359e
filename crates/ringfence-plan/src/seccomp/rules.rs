//! The rule for each system call, as data: one row per group, one column per profile.
//!
//! The rows together name every call of every table exactly once; a test enforces it, so a kernel's new call is decided
//! by a person when its number is added, and answered with `ENOSYS` until then.

use super::checks::{self, Check, Guard, IOPRIO_WHO_PROCESS, Outcome, PRIO_PROCESS};
use super::reasons::{self, Reason};
use super::{FilterSpec, Profile, lookup};

/// Calls that are treated alike.
pub(super) struct Group {
    command: CallRule,
    code: CallRule,
    /// Their names, separated by one space.
    pub(super) calls: &'static str,
}

/// A profile's rule for a call.
#[derive(Clone, Copy, Debug)]
enum CallRule {
    Allow,
    Refuse(&'static Reason),
    Check(Check),
}

/// The rule for one call under one spec, ready to be compiled or evaluated. The first guard that matches decides; if
/// none does, `otherwise`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ruling {
    pub(super) guards: Vec<Guard>,
    pub(super) otherwise: Outcome,
}

/// The ruling for call `nr`, or none if it is in no table or no group. `spec` is normalised.
pub(super) fn ruling(spec: FilterSpec, nr: u32) -> Option<Ruling> {
    let group = *lookup::groups_by_number(spec.arch).get(usize::try_from(nr).ok()?)?;
    Some(GROUPS.get(usize::from(group))?.ruling(spec))
}

/// The ruling of each of [`GROUPS`], in that order. `spec` is normalised.
pub(super) fn rulings(spec: FilterSpec) -> impl Iterator<Item = Ruling> {
    GROUPS.iter().map(move |group| group.ruling(spec))
}

impl Group {
    fn ruling(&self, spec: FilterSpec) -> Ruling {
        let rule = match spec.profile {
            Profile::Command => self.command,
            Profile::Code => self.code,
            Profile::CodeWithProcesses => self.code_with_processes(),
            Profile::Zygote => self.zygote(),
        };
        let (guards, otherwise) = match rule {
            CallRule::Allow => (vec![], Outcome::Allow),
            CallRule::Refuse(reason) => (vec![], Outcome::Refuse { reason, argument: None }),
            CallRule::Check(check) => (checks::guards(check, spec), Outcome::Allow),
        };
        Ruling { guards, otherwise }.settled()
    }
}

impl Group {
    /// Code that may start and execute other programs. They have no more calls than code has.
    fn code_with_processes(&self) -> CallRule {
        match self.code {
            _ if matches!(self.command, CallRule::Check(Check::Socket)) => {
                CallRule::Check(Check::NoSocket)
            }
            CallRule::Check(Check::CloneThread) => CallRule::Check(Check::Clone),
            // They are never stopped.
            CallRule::Check(Check::NoWaking(_)) => CallRule::Allow,
            CallRule::Refuse(reason)
                if [&reasons::EXEC, &reasons::PROCESSES, &reasons::PROCESS_CONTROL]
                    .contains(&reason) =>
            {
                CallRule::Allow
            }
            other => other,
        }
    }

    /// A zygote builds its workers' fences, for which it has namespaces to itself; beyond that it is a command.
    fn zygote(&self) -> CallRule {
        match self.command {
            CallRule::Check(Check::Clone | Check::Unshare) => CallRule::Allow,
            CallRule::Refuse(reason)
                if *reason == reasons::MOUNT || *reason == reasons::NAMESPACES =>
            {
                CallRule::Allow
            }
            // It holds one end of a socket and makes none.
            CallRule::Check(Check::Socket | Check::Connect) => CallRule::Refuse(&reasons::SOCKETS),
            other => other,
        }
    }
}

impl Ruling {
    /// Drops the guards after one without conditions: they are never reached.
    fn settled(mut self) -> Self {
        if let Some(at) = self.guards.iter().position(|guard| guard.when().next().is_none()) {
            self.otherwise = self.guards[at].then;
            self.guards.truncate(at);
        }
        self
    }

    /// Outcome of a call with these arguments.
    pub(super) fn decide(&self, args: &[u64; 6]) -> Outcome {
        let matches = |guard: &&Guard| guard.when().all(|condition| condition.holds(args));
        self.guards.iter().find(matches).map_or(self.otherwise, |guard| guard.then)
    }
}

const fn everywhere(calls: &'static str) -> Group {
    Group { command: CallRule::Allow, code: CallRule::Allow, calls }
}

/// For commands, but not needed by code runs.
const fn commands_only(calls: &'static str) -> Group {
    commands_but_not_code(&reasons::OUTSIDE_CODE, calls)
}

const fn commands_but_not_code(code: &'static Reason, calls: &'static str) -> Group {
    Group { command: CallRule::Allow, code: CallRule::Refuse(code), calls }
}

const fn nowhere(reason: &'static Reason, calls: &'static str) -> Group {
    Group { command: CallRule::Refuse(reason), code: CallRule::Refuse(reason), calls }
}

const fn checked(command: Check, code: Check, calls: &'static str) -> Group {
    Group { command: CallRule::Check(command), code: CallRule::Check(code), calls }
}

const fn in_both(check: Check, calls: &'static str) -> Group {
    checked(check, check, calls)
}

const fn checked_for_commands(command: Check, code: &'static Reason, calls: &'static str) -> Group {
    Group { command: CallRule::Check(command), code: CallRule::Refuse(code), calls }
}

const fn checked_for_code(code: Check, calls: &'static str) -> Group {
    Group { command: CallRule::Allow, code: CallRule::Check(code), calls }
}

pub(super) static GROUPS: &[Group] = &[
    // Files: mounts and Landlock decide which can be accessed, not the filter.
    everywhere(
        "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek \
         sendfile copy_file_range fadvise64 readahead",
    ),
    everywhere("close close_range dup dup2 dup3 flock"),
    checked(Check::Fcntl, Check::FcntlOfCode, "fcntl"),
    // A workspace is the host's disk, where a file's owner can be the host's root: no call that sets a mode may set the
    // setuid or setgid bit. mkdir and mkdirat cannot, as vfs_mkdir keeps only S_IRWXUGO and S_ISVTX of the mode.
    in_both(Check::Open { flags: 1, mode: 2 }, "open"),
    in_both(Check::Open { flags: 2, mode: 3 }, "openat"),
    in_both(Check::Mode(1), "creat chmod fchmod"),
    in_both(Check::Mode(2), "fchmodat fchmodat2"),
    in_both(Check::MakeNode(1), "mknod"),
    in_both(Check::MakeNode(2), "mknodat"),
    in_both(Check::RenameFlags(4), "renameat2"),
    // Its mode is behind a pointer, out of a filter's sight.
    nowhere(&reasons::OPENAT2, "openat2"),
    everywhere(
        "stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 \
         readlink readlinkat getdents getdents64 getcwd chdir fchdir umask",
    ),
    everywhere(
        "rename renameat mkdir mkdirat rmdir link linkat unlink unlinkat symlink \
         symlinkat truncate ftruncate fallocate fsync fdatasync sync_file_range",
    ),
    everywhere("chown fchown lchown fchownat utime utimes futimesat utimensat"),
    everywhere(
        "getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat",
    ),
    in_both(
        Check::Attributes,
        "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat",
    ),
    // file_setattr does the same as the FS_IOC_FSSETXATTR ioctl, with the same permission checks, but takes a path.
    checked_for_commands(Check::Attributes, &reasons::OUTSIDE_CODE, "file_setattr"),
    commands_only("file_getattr sync syncfs splice tee vmsplice"),
    commands_only("inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"),
    commands_only("io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents"),
    // A handle is only a name; redeeming it, open_by_handle_at, is refused below.
    commands_only("name_to_handle_at"),
    checked(Check::Ioctl, Check::IoctlQueries, "ioctl"),
    // Waiting and waking.
    everywhere(
        "pipe pipe2 poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl \
         epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 timerfd_create timerfd_settime \
         timerfd_gettime signalfd signalfd4",
    ),
    everywhere(
        "futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list \
         get_robust_list membarrier rseq set_tid_address",
    ),
    // Memory.
    everywhere(
        "munmap mprotect mremap madvise brk msync mincore mlock mlock2 munlock mseal \
         get_mempolicy set_mempolicy mbind map_shadow_stack",
    ),
    // Memory that no limit of a process counts: anonymous shared memory, and a stack that grows by itself.
    checked(Check::OrdinaryMemory, Check::CountedMemory, "mmap"),
    commands_only(
        "mlockall munlockall remap_file_pages pkey_mprotect pkey_alloc pkey_free \
         set_mempolicy_home_node shmdt",
    ),
    checked_for_commands(Check::OwnPages, &reasons::OUTSIDE_CODE, "migrate_pages move_pages"),
    in_both(Check::SharedMemory, "memfd_create"),
    // Without an IPC namespace shmat and shmctl reach the host's segments, so they go with shmget.
    checked_for_commands(Check::NewSegment, &reasons::OUTSIDE_CODE, "shmget"),
    checked_for_commands(Check::SharedSegments, &reasons::OUTSIDE_CODE, "shmat shmctl"),
    nowhere(&reasons::SECRET_MEMORY, "memfd_secret"),
    // Time.
    everywhere(
        "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times \
         getitimer setitimer alarm timer_settime timer_gettime timer_getoverrun timer_delete",
    ),
    // Its signal is behind a pointer, and can be SIGCONT.
    commands_but_not_code(&reasons::PROCESS_CONTROL, "timer_create"),
    // Signals: the pid namespace, or Landlock's signal scope, decides which processes they reach.
    everywhere(
        "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait \
         rt_sigsuspend sigaltstack pause restart_syscall pidfd_open",
    ),
    // The host stops the processes of a session between its cells: none of them may have itself or another go on.
    checked_for_code(Check::NoWaking(1), "kill tkill rt_sigqueueinfo pidfd_send_signal"),
    checked_for_code(Check::NoWaking(2), "tgkill rt_tgsigqueueinfo"),
    // Own ids and location.
    everywhere(
        "getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups \
         getpgid getpgrp getsid uname sysinfo getrusage getrandom getcpu capget getpriority \
         ioprio_get",
    ),
    everywhere(
        "sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr \
         sched_get_priority_max sched_get_priority_min sched_rr_get_interval getrlimit",
    ),
    // A crash starts the program that kernel.core_pattern names after a `|`, as root of the host and with the memory of
    // the crashed process, whatever the limit on core dumps: 1 alone prevents it (coredump_pipe in fs/coredump.c).
    // Programs that guard secrets set 0, and some of them, gpg-agent for one, exit if that is refused; so the call
    // pretends to succeed.
    in_both(Check::CoreLimit, "setrlimit"),
    // Limits and scheduling: any process of the same user can be named, so without a pid namespace
    // only the caller may be.
    in_both(Check::OwnLimits, "prlimit64"),
    in_both(Check::OwnProcess, "sched_setaffinity"),
    checked_for_commands(
        Check::OwnProcess,
        &reasons::OUTSIDE_CODE,
        "sched_setparam sched_setscheduler sched_setattr",
    ),
    checked_for_commands(
        Check::OwnPriority { process: &[PRIO_PROCESS] },
        &reasons::OUTSIDE_CODE,
        "setpriority",
    ),
    checked_for_commands(
        Check::OwnPriority { process: &[IOPRIO_WHO_PROCESS] },
        &reasons::OUTSIDE_CODE,
        "ioprio_set",
    ),
    // Processes. The kernel issues uprobe and uretprobe itself where the host traces the program;
    // called by hand they end the caller.
    everywhere("exit exit_group wait4 waitid arch_prctl uprobe uretprobe"),
    commands_but_not_code(&reasons::EXEC, "execve execveat"),
    commands_but_not_code(&reasons::PROCESSES, "fork vfork"),
    checked(Check::Clone, Check::CloneThread, "clone"),
    // Its flags are behind a pointer, out of a filter's sight.
    nowhere(&reasons::CLONE3, "clone3"),
    checked(Check::Prctl, Check::PrctlQueries, "prctl"),
    checked_for_commands(Check::Personality, &reasons::OUTSIDE_CODE, "personality"),
    // Without capabilities the kernel refuses the dangerous uses of these.
    commands_only(
        "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups \
         capset setpgid setsid",
    ),
    // Filters and rulesets only ever add restrictions; of two filters the stricter answer counts.
    commands_only("seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"),
    // System V and POSIX messages and semaphores: the ipc namespace's. A queue can also be opened as
    // a file of /dev/mqueue, so sending and receiving go with mq_open.
    checked_for_commands(
        Check::Ipc,
        &reasons::OUTSIDE_CODE,
        "semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink \
         mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
    ),
    // Sockets.
    checked_for_commands(Check::Socket, &reasons::SOCKETS, "socket"),
    checked(Check::SocketPair, Check::SocketPairStream, "socketpair"),
    checked_for_commands(Check::Connect, &reasons::SOCKETS, "connect"),
    checked_for_commands(Check::Serve, &reasons::SOCKETS, "bind listen accept accept4"),
    everywhere("recvfrom recvmsg shutdown getsockname getpeername"),
    in_both(Check::GetOption, "getsockopt"),
    commands_only("recvmmsg"),
    // It would let code attach BPF programs to its socket pair.
    checked_for_commands(Check::SetOption, &reasons::OUTSIDE_CODE, "setsockopt"),
    Group { command: CallRule::Check(Check::Send(3)), code: CallRule::Allow, calls: "sendto" },
    // Descriptors in flight are counted for the user, not for the run.
    checked(Check::Send(2), Check::SendRights, "sendmsg"),
    checked_for_commands(Check::Send(3), &reasons::OUTSIDE_CODE, "sendmmsg"),
    // The fence itself.
    nowhere(
        &reasons::MOUNT,
        "mount umount2 pivot_root move_mount open_tree open_tree_attr fsopen fsconfig fsmount \
         fspick mount_setattr",
    ),
    nowhere(&reasons::ROOT_DIRECTORY, "chroot"),
    nowhere(&reasons::NAMESPACES, "setns"),
    checked(Check::Unshare, Check::UnshareNothing, "unshare"),
    nowhere(&reasons::PTRACE, "ptrace"),
    nowhere(
        &reasons::PROCESS_MEMORY,
        "process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd",
    ),
    nowhere(&reasons::FILE_HANDLES, "open_by_handle_at"),
    // Parts of the kernel with a long record of holes and no use for an ordinary program.
    nowhere(&reasons::KERNEL_KEYRING, "add_key request_key keyctl"),
    nowhere(&reasons::BPF, "bpf"),
    nowhere(&reasons::PERFORMANCE_EVENTS, "perf_event_open"),
    nowhere(&reasons::USERFAULTFD, "userfaultfd"),
    // Its operations pass no filter: with a ring, a program could connect, open and send unseen.
    nowhere(&reasons::IO_URING, "io_uring_setup io_uring_enter io_uring_register"),
    nowhere(&reasons::FANOTIFY, "fanotify_init fanotify_mark"),
    nowhere(&reasons::HARDWARE, "iopl ioperm modify_ldt"),
    // The host's.
    nowhere(&reasons::DISK_ADMIN, "quotactl quotactl_fd acct swapon swapoff"),
    // adjtimex with no modes only reads, but the modes are behind a pointer.
    nowhere(&reasons::CLOCK, "settimeofday clock_settime clock_adjtime adjtimex"),
    nowhere(
        &reasons::KERNEL_ADMIN,
        "reboot kexec_load kexec_file_load init_module finit_module delete_module \
         lookup_dcookie nfsservctl vhangup",
    ),
    nowhere(&reasons::KERNEL_LOG, "syslog"),
    nowhere(&reasons::HOST_NAME, "sethostname setdomainname"),
    // New calls that reveal the host: its mounts, namespaces, security modules and page cache.
    nowhere(
        &reasons::NOT_IMPLEMENTED,
        "statmount listmount listns lsm_get_self_attr lsm_set_self_attr lsm_list_modules \
         cachestat",
    ),
    // Calls no present kernel implements, or only for other kinds of programs.
    nowhere(
        &reasons::NOT_IMPLEMENTED,
        "uselib ustat sysfs _sysctl create_module query_module get_kernel_syms afs_syscall \
         tuxcall security vserver getpmsg putpmsg epoll_ctl_old epoll_wait_old \
         set_thread_area get_thread_area",
    ),
];

#[cfg(test)]
mod tests {
    use super::super::{Arch, table};
    use super::*;
    use std::collections::BTreeSet;

    fn names() -> impl Iterator<Item = &'static str> {
        GROUPS.iter().flat_map(|group| group.calls.split(' '))
    }

    #[test]
    fn every_call_of_every_table_is_in_exactly_one_group() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            for (nr, call) in table::calls(arch) {
                let n = names().filter(|name| name == call).count();
                assert_eq!(n, 1, "{arch:?} {nr} {call}");
            }
        }
    }

    #[test]
    fn every_grouped_call_is_in_some_table() {
        let known: BTreeSet<_> = [Arch::X86_64, Arch::Aarch64]
            .into_iter()
            .flat_map(table::calls)
            .map(|&(_, call)| call)
            .collect();
        for call in names() {
            assert!(known.contains(call), "{call}");
        }
    }
}
