//! Every reason for which the filter refuses a call: its stable name, the error the program sees, and a hint for the
//! reader of the denial. A hint is true whatever the policy; it promises nothing the run may not have.

use super::errno::{
    EACCES, EAFNOSUPPORT, ENOMEM, ENOPROTOOPT, ENOSYS, EOPNOTSUPP, EPERM, EPROTONOSUPPORT,
};
use ringfence_spec::DenialRule;

/// Reason that a call is refused.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Reason {
    /// Stable name, in `snake_case`.
    pub(super) rule: DenialRule,
    /// The error that the program gets. If the kernel has an error of its own for a caller without the right, it is
    /// that one, so programs take the path they know. 0 with [`Reporting::Done`] alone.
    pub(super) errno: i32,
    pub(super) hint: &'static str,
    pub(super) report: Reporting,
}

/// Reporting of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reporting {
    /// To the supervisor, if there is a listener: the call is informative about the program.
    Denial,
    /// None: libraries probe for it on their own and go on without, as on an older kernel.
    Quiet,
    /// None, and the call pretends to succeed.
    Done,
}

const fn denial(rule: DenialRule, errno: i32, hint: &'static str) -> Reason {
    Reason { rule, errno, hint, report: Reporting::Denial }
}

const fn quiet(rule: DenialRule, errno: i32, hint: &'static str) -> Reason {
    Reason { rule, errno, hint, report: Reporting::Quiet }
}

pub(super) static NOT_IMPLEMENTED: Reason = quiet(
    DenialRule::NotImplemented,
    ENOSYS,
    "this system call does not exist in the sandbox; use an older equivalent",
);
pub(super) static CLONE3: Reason = quiet(
    DenialRule::Clone3,
    ENOSYS,
    "clone3 is answered as on a kernel without it; use clone, as the C library then does by itself",
);
pub(super) static OPENAT2: Reason =
    quiet(DenialRule::Openat2, ENOSYS, "openat2 is answered as on a kernel without it; use openat");
pub(super) static MULTIPATH_TCP: Reason = quiet(
    DenialRule::MultipathTcp,
    EPROTONOSUPPORT,
    "multipath TCP is not available in the sandbox; use plain TCP",
);

pub(super) static PIPE_SIZE: Reason = quiet(
    DenialRule::PipeSize,
    // The kernel's error for a size that only a privileged process may have.
    EPERM,
    "a pipe has at most 64 KiB here, as pipes are counted for the user; write in smaller pieces",
);

pub(super) static MOUNT: Reason = denial(
    DenialRule::Mount,
    EPERM,
    "mounts are fixed when the sandbox starts; work inside the directories that are already there",
);
pub(super) static ROOT_DIRECTORY: Reason = denial(
    DenialRule::RootDirectory,
    EPERM,
    "the root directory cannot be changed in the sandbox; use chdir and absolute paths",
);
pub(super) static NAMESPACES: Reason = denial(
    DenialRule::Namespaces,
    EPERM,
    "new or other namespaces are not available; run the program without its own \
     container or sandbox (for browsers: --no-sandbox)",
);
pub(super) static PTRACE: Reason = denial(
    DenialRule::Ptrace,
    EPERM,
    "tracing is not available, so gdb and strace cannot attach; use logging, or the language's \
     own debugger",
);
pub(super) static PROCESS_MEMORY: Reason = denial(
    DenialRule::ProcessMemory,
    EPERM,
    "one process cannot reach into another here; share a file, a pipe or a socket pair instead",
);
pub(super) static PROCESS_LAYOUT: Reason = denial(
    DenialRule::ProcessLayout,
    EPERM,
    "PR_SET_MM is not available; a process keeps the memory layout it was given",
);
pub(super) static KERNEL_KEYRING: Reason = denial(
    DenialRule::KernelKeyring,
    EPERM,
    "kernel keyrings are not available; keep the secret in a file or in memory",
);
pub(super) static BPF: Reason = denial(
    DenialRule::Bpf,
    EPERM,
    "BPF is not available in the sandbox; do without kernel tracing",
);
pub(super) static PERFORMANCE_EVENTS: Reason = denial(
    DenialRule::PerformanceEvents,
    EPERM,
    "perf events are not available; measure with timers or a profiler that samples by signal",
);
pub(super) static USERFAULTFD: Reason = denial(
    DenialRule::Userfaultfd,
    EPERM,
    "userfaultfd is not available; handle SIGSEGV or copy eagerly instead",
);
pub(super) static IO_URING: Reason = denial(
    DenialRule::IoUring,
    EPERM,
    "io_uring is not available; use epoll and plain reads and writes",
);
pub(super) static FILE_HANDLES: Reason =
    denial(DenialRule::FileHandles, EPERM, "files cannot be opened by handle; open them by path");
pub(super) static LEASES: Reason = denial(
    DenialRule::Leases,
    EPERM,
    "a lease would hold up host programs that open the file; use flock or fcntl locks",
);
pub(super) static SNAPSHOTS: Reason = denial(
    DenialRule::Snapshots,
    EPERM,
    "subvolumes and snapshots would show what is hidden here; copy the files, cp --reflink works",
);
pub(super) static FILE_ENCRYPTION: Reason = denial(
    DenialRule::FileEncryption,
    EPERM,
    "keys and policies of encrypted directories are the user's on the host; encrypt the file itself",
);
pub(super) static DISK_ADMIN: Reason = denial(
    DenialRule::DiskAdmin,
    EPERM,
    "quotas, swap and process accounting belong to the host and cannot be used here",
);
pub(super) static CLOCK: Reason = denial(
    DenialRule::Clock,
    EPERM,
    "the clock belongs to the host; set the time a program sees with faketime or an argument",
);
pub(super) static KERNEL_ADMIN: Reason = denial(
    DenialRule::KernelAdmin,
    EPERM,
    "this call administers the host's kernel and is never available in the sandbox",
);
pub(super) static KERNEL_LOG: Reason =
    denial(DenialRule::KernelLog, EPERM, "the kernel log is the host's and cannot be read here");
pub(super) static HARDWARE: Reason = denial(
    DenialRule::Hardware,
    EPERM,
    "direct access to ports and descriptor tables is not available in the sandbox",
);
pub(super) static PERSONALITY: Reason = denial(
    DenialRule::Personality,
    EPERM,
    "only the ordinary personality, with or without ADDR_NO_RANDOMIZE, is available; drop setarch \
     or its other flags",
);
pub(super) static HOST_NAME: Reason =
    denial(DenialRule::HostName, EPERM, "the host name is fixed while the sandbox runs");
pub(super) static DEVICE_NODES: Reason = denial(
    DenialRule::DeviceNodes,
    EPERM,
    "device nodes cannot be made; fifos, sockets and plain files can",
);
pub(super) static SETUID_BIT: Reason = denial(
    DenialRule::SetuidBit,
    EPERM,
    "no file or directory can be given the setuid or setgid bit; ask for at most 01777 (chmod 755 \
     may keep a directory's bit, 00755 drops it)",
);
pub(super) static FANOTIFY: Reason = denial(
    DenialRule::Fanotify,
    EPERM,
    "fanotify is not available; poll, or in a command run watch files with inotify",
);
pub(super) static SECRET_MEMORY: Reason = denial(
    DenialRule::SecretMemory,
    EPERM,
    "memfd_secret is not available; use ordinary private memory",
);
pub(super) static SHARED_MEMORY: Reason = denial(
    DenialRule::SharedMemory,
    EPERM,
    "this run has neither memfd_create nor System V shared memory; use a temporary file, or \
     MAP_SHARED before fork",
);
pub(super) static HUGE_PAGES: Reason = denial(
    DenialRule::HugePages,
    // The kernel's error if the pool is empty.
    ENOMEM,
    "the host's reserved huge pages are not for runs, as no limit counts them; map ordinary memory",
);
pub(super) static IPC: Reason = denial(
    DenialRule::Ipc,
    EPERM,
    "this run has no System V IPC and no POSIX message queues, as they would be the host's; use \
     pipes, files and file locks",
);
pub(super) static ATTRIBUTES: Reason = quiet(
    DenialRule::FileAttributes,
    EOPNOTSUPP,
    "this run sets no extended attributes, as it could set those of files outside; leave them out \
     (`cp --preserve=mode,timestamps`, `tar --no-xattrs`)",
);
pub(super) static FOREIGN_PROCESS: Reason = denial(
    DenialRule::ForeignProcess,
    EPERM,
    "only the caller's own limits and scheduling can be set; pass 0 as the id, with PRIO_PROCESS or \
     IOPRIO_WHO_PROCESS, not a pid or tid",
);
pub(super) static CORE_LIMIT: Reason = Reason {
    rule: DenialRule::CoreLimit,
    errno: 0,
    hint: "the limit on core dumps stays 1, so that no core is written and no handler of the host starts; \
           a change is answered as done",
    report: Reporting::Done,
};
pub(super) static PAGE_PLACEMENT: Reason =
    denial(DenialRule::PagePlacement, EPERM, "only a process's own pages can be moved; pass pid 0");
pub(super) static TERMINAL_INJECTION: Reason = denial(
    DenialRule::TerminalInjection,
    EPERM,
    "input cannot be pushed into the terminal, nor its line discipline or console changed; use a \
     pipe or a pty",
);

pub(super) static NETLINK: Reason = denial(
    DenialRule::Netlink,
    EAFNOSUPPORT,
    "netlink sockets are not available, so interfaces and routes cannot be listed or changed this \
     way",
);
pub(super) static SOCKET_FAMILY: Reason = denial(
    DenialRule::SocketFamily,
    EAFNOSUPPORT,
    "this socket family is not available in the sandbox; unix and internet sockets are the only \
     ones a run can have",
);
pub(super) static UNIX_SOCKETS: Reason = denial(
    DenialRule::UnixSockets,
    EACCES,
    "this run cannot make unix sockets; use socketpair(AF_UNIX, SOCK_STREAM), a pipe or a fifo",
);
pub(super) static UNIX_DATAGRAM: Reason = denial(
    DenialRule::UnixDatagram,
    EACCES,
    "unix datagram sockets are not available; use SOCK_STREAM or SOCK_SEQPACKET",
);
pub(super) static UNIX_CONNECT: Reason = denial(
    DenialRule::UnixConnect,
    EACCES,
    "only unix sockets made in this run or named by its policy can be connected to; start the \
     server inside the run",
);
pub(super) static INTERNET_SOCKETS: Reason = denial(
    DenialRule::InternetSockets,
    EACCES,
    "this run has no network, loopback included; work with the files that are here",
);
pub(super) static UDP_SOCKET: Reason = denial(
    DenialRule::UdpSocket,
    EACCES,
    "this run reaches other hosts by TCP through a proxy alone, so UDP and its own name lookups do not work; use the proxy of `HTTPS_PROXY`, which looks names up",
);
pub(super) static SOCKET_OPTION: Reason = quiet(
    DenialRule::SocketOption,
    // The kernel's error for an option that it does not have.
    ENOPROTOOPT,
    "this socket option is not available in the sandbox; go on without it",
);
pub(super) static SERVER_SOCKET: Reason = denial(
    DenialRule::ServerSocket,
    EACCES,
    "this run shares the host's network and can only be a client; use a pipe or a socketpair between its own programs",
);
pub(super) static RAW_SOCKET: Reason = denial(
    DenialRule::RawSocket,
    EPERM,
    "raw and packet sockets are not available; use TCP or UDP where the run has a network",
);
pub(super) static PING_SOCKET: Reason = denial(
    DenialRule::PingSocket,
    EACCES,
    "ICMP is not available, so ping cannot work; try a TCP connection instead",
);
pub(super) static SOCKET_PROTOCOL: Reason = denial(
    DenialRule::SocketProtocol,
    EPROTONOSUPPORT,
    "TCP and UDP are the only internet protocols available; SCTP, DCCP, UDP-Lite and others are \
     not",
);
pub(super) static TCP_FAST_OPEN: Reason = denial(
    DenialRule::TcpFastOpen,
    EOPNOTSUPP,
    "MSG_FASTOPEN is not available; call connect before sending",
);

pub(super) static EXEC: Reason = denial(
    DenialRule::Exec,
    EPERM,
    "this run has no child processes; use a library, or run the program as a command",
);
pub(super) static PROCESSES: Reason = denial(
    DenialRule::Processes,
    EPERM,
    "this run has no child processes; use threads, or run it as a command",
);
const NO_SOCKETS: &str = "this run has no network, and no sockets but socketpair(AF_UNIX, SOCK_STREAM); fetch what it \
     needs beforehand";
pub(super) static SOCKETS: Reason = denial(DenialRule::Sockets, EPERM, NO_SOCKETS);
/// Programs look for a name service by a unix socket, and go on with /etc/passwd.
pub(super) static NAME_SERVICE: Reason = quiet(DenialRule::Sockets, EPERM, NO_SOCKETS);
pub(super) static OUTSIDE_CODE: Reason = denial(
    DenialRule::OutsideCode,
    EPERM,
    "a code run has memory, files, threads, time and pipes; for more than that, run it as a command",
);
pub(super) static PROCESS_CONTROL: Reason = denial(
    DenialRule::ProcessControl,
    EPERM,
    "of prctl, a code run has PR_SET_NAME, PR_SET_VMA and the PR_GET_* queries; of signals, all but SIGCONT; of timers, setitimer",
);
pub(super) static DEVICE_CONTROL: Reason = denial(
    DenialRule::DeviceControl,
    EPERM,
    "of ioctl, a code run has the terminal size and mode queries, FIONREAD, FIONBIO, FIOCLEX and \
     FIONCLEX",
);
