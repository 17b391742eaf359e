//! The calls whose arguments decide. Each is a list of guards, read from the top; the first that matches decides, and a
//! call that passes them all is allowed.
//!
//! A guard sees the low 32 bits of an argument. The kernel acts on these: `int` and `unsigned int` parameters (domain,
//! type, protocol, ioctl request, prctl option, mode, pid, open and send flags) are truncated on entry, and the flags
//! of clone and unshare that exist all lie in the low half. A filter that compared 64 bits would be passed by setting a
//! bit the kernel then drops. Memory behind a pointer is never read: it can change between the filter and the call. A
//! null pointer is recognised by the register, in both of its halves.

use super::reasons::{self, Reason};
use super::{FilterSpec, Inet, Ipc, Observe, SharedMemory, UnixSockets};

/// Argument check of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Check {
    /// clone: no new namespaces.
    Clone,
    /// clone: threads of this process only.
    CloneThread,
    /// unshare: files, fs and semaphores, no namespaces.
    Unshare,
    /// unshare: not at all, but namespaces have a reason of their own.
    UnshareNothing,
    /// socket: families, types and protocols.
    Socket,
    /// socket: none. A program's search for a name service by a unix socket is not reported.
    NoSocket,
    /// socketpair: connected stream-like pairs.
    SocketPair,
    /// socketpair: connected streams.
    SocketPairStream,
    /// connect: the supervisor's to decide, if it supervises.
    Connect,
    /// bind, listen, accept: not on the host's own network.
    Serve,
    /// getsockopt: no handle of the process at the other end.
    GetOption,
    /// setsockopt: on the host's own network nothing that changes the way of a connection.
    SetOption,
    /// sendto, sendmsg, sendmmsg: flags in this argument.
    Send(u8),
    /// prctl: all but rewriting the memory layout.
    Prctl,
    /// prctl: names and queries.
    PrctlQueries,
    /// ioctl: all but pushing into a terminal, and requesting data from a filesystem that its mounts hide.
    Ioctl,
    /// ioctl: the requests of the C library and Python about files and terminals.
    IoctlQueries,
    /// personality: ordinary, or asking.
    Personality,
    /// open, openat: a new file gets no setuid or setgid bit.
    Open { flags: u8, mode: u8 },
    /// creat and the chmods: mode in this argument, without setuid and setgid bits.
    Mode(u8),
    /// mknod, mknodat: mode in this argument, neither a device's nor with those bits.
    MakeNode(u8),
    /// renameat2: flags in this argument, none that leaves a device node behind.
    RenameFlags(u8),
    /// mmap: no memory from the host's pool of huge pages.
    OrdinaryMemory,
    /// mmap: nor any that a limit on data does not count.
    CountedMemory,
    /// fcntl: no pipe that is larger than from birth, and no lease, which holds up others that open the file.
    Fcntl,
    /// fcntl: nor anything that watches others.
    FcntlOfCode,
    /// Signals: in this argument, not one that has a stopped process go on.
    NoWaking(u8),
    /// sendmsg: not at all, unless the host must be sent descriptors.
    SendRights,
    /// `migrate_pages`, `move_pages`: own pages.
    OwnPages,
    /// Limits and scheduling: the caller's own where there is no pid namespace.
    OwnProcess,
    /// setrlimit: the limit on core dumps stays as it is.
    CoreLimit,
    /// prlimit64: the same, of the caller's own where there is no pid namespace.
    OwnLimits,
    /// The same for setpriority and `ioprio_set`, which take the kind of the id that follows; `process` is their value
    /// for a process id.
    OwnPriority { process: &'static [u32] },
    /// `memfd_create`, by the spec's [`SharedMemory`].
    SharedMemory,
    /// System V shared memory, by the spec's [`SharedMemory`].
    SharedSegments,
    /// shmget: the same, and none from the host's pool of huge pages.
    NewSegment,
    /// Semaphores and message queues, by the spec's [`Ipc`].
    Ipc,
    /// Extended attributes of files. Without namespaces, and so by the spec's [`Ipc`], no mount and no Landlock right keeps them
    /// from files outside.
    Attributes,
}

/// Outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Allow,
    Refuse { reason: &'static Reason, argument: Option<u8> },
}

/// If all of its conditions hold, `then` is the outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Guard {
    /// No guard needs more than two, and an array saves every compilation some forty allocations.
    when: [Option<Condition>; 2],
    pub(super) then: Outcome,
}

impl Guard {
    pub(super) fn when(&self) -> impl DoubleEndedIterator<Item = &Condition> {
        self.when.iter().flatten()
    }
}

/// A statement about one half of one argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Condition {
    pub(super) argument: u8,
    pub(super) half: Half,
    pub(super) mask: u32,
    pub(super) test: Test,
}

/// Half of a 64-bit argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Half {
    Low,
    /// Only of a pointer: of anything else the kernel may drop it.
    High,
}

/// The test of a masked argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Test {
    /// One of these values, of which there is at least one.
    These(&'static [u32]),
    /// None of these values, of which there is at least one.
    Others(&'static [u32]),
    /// More than this, unsigned.
    Above(u32),
}

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;

const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_SEQPACKET: u32 = 5;
/// The kernel's `SOCK_TYPE_MASK`: the rest of the argument is `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const SOCK_TYPE_MASK: u32 = 0xf;

const IPPROTO_ICMP: u32 = 1;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const IPPROTO_ICMPV6: u32 = 58;
const IPPROTO_MPTCP: u32 = 262;

const MSG_FASTOPEN: u32 = 0x2000_0000;

const CLONE_THREAD: u32 = 0x0001_0000;
/// `CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}`
const CLONE_NEW: u32 = 0x7e02_0000;
/// For unshare only: in clone's flags this bit is part of the exit signal.
const CLONE_NEWTIME: u32 = 0x80;

const PR_SET_MM: u32 = 35;
/// `PR_SET_NAME`, `PR_SET_VMA` (names memory for `/proc/self/maps`), then queries: PDEATHSIG,
/// DUMPABLE, KEEPCAPS, TIMING, NAME, SECCOMP, CAPBSET, SECUREBITS, TIMERSLACK, `CHILD_SUBREAPER`,
/// `NO_NEW_PRIVS`, `TID_ADDRESS`, `THP_DISABLE`, `SPECULATION_CTRL`.
const PR_QUERIES: &[u32] = &[15, 0x5356_4d41, 2, 3, 7, 13, 16, 21, 23, 27, 30, 37, 39, 40, 42, 52];

/// TIOCSTI and TIOCLINUX type into the terminal, TIOCCONS takes the console's output, TIOCSETD
/// loads a line discipline.
const TERMINAL_REQUESTS: &[u32] = &[0x5412, 0x541c, 0x541d, 0x5423];
/// TCGETS, TCGETS2 (isatty in glibc 2.42), TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX,
/// FIOCLEX.
const QUERY_REQUESTS: &[u32] =
    &[0x5401, 0x802c_542a, 0x540f, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451];

/// A request is `_IOC(direction, kind, number, size)`: the kind in bits 8 to 15, the number below.
const REQUEST_KIND: u32 = 0xff00;
const REQUEST_KIND_AND_NUMBER: u32 = 0xffff;
/// FICLONE, FICLONERANGE, FIDEDUPERANGE: btrfs's once, and every filesystem's since Linux 4.5. They take two
/// descriptors that the run opened itself.
const CLONE_REQUESTS: &[u32] = &[0x4004_9409, 0x4020_940d, 0xc018_9436];
/// btrfs (include/uapi/linux/btrfs.h) and bcachefs (`fs/bcachefs/bcachefs_ioctl.h`). Both let the owner of a directory
/// make a snapshot of its subvolume, in which no mask and no read-only mount covers anything; delete one; and make one
/// read-only for the host as well. The other requests of these kinds need `CAP_SYS_ADMIN`, or reveal the host's disks.
const SNAPSHOT_KINDS: &[u32] = &[0x9400, 0xbc00];
/// XFS's own `open_by_handle_at` and its kin (`fs/xfs/libxfs/xfs_fs.h`): GETPARENTS, OPEN, READLINK, ATTRLIST,
/// ATTRMULTI, all `…_BY_HANDLE`. XFS requires `CAP_SYS_ADMIN` too; the call is refused whatever capabilities its caller
/// has, and so are these.
const HANDLE_REQUESTS: &[u32] = &[0x583f, 0x586b, 0x586c, 0x587a, 0x587b];
/// `FS_IOC_SET_ENCRYPTION_POLICY`, `ADD_ENCRYPTION_KEY`, `REMOVE_ENCRYPTION_KEY` and the last for all users
/// (include/uapi/linux/fscrypt.h). Keys belong to the user on the whole filesystem: removing one locks the user's
/// encrypted home, outside too, and needs no more than its identifier, which any encrypted directory reveals.
const ENCRYPTION_REQUESTS: &[u32] = &[0x6613, 0x6617, 0x6618, 0x6619];
// Allowed, because they work on descriptors that the run opened for writing, by paths that are resolved through its
// mounts, or require a capability in the initial user namespace: ext4's MOVE_EXT, SWAP_BOOT and RESIZE_FS, XFS's
// SWAPEXT, EXCHANGE_RANGE and bulkstat, ocfs2's REFLINK, f2fs's MOVE_RANGE, nilfs2's checkpoints, FIFREEZE, FITRIM,
// SHUTDOWN, and FS_IOC_SETFLAGS and FSSETXATTR, whose immutable and append-only flags need CAP_LINUX_IMMUTABLE.
// overlayfs has none of its own.

/// `PER_LINUX`, the query of the current one, `ADDR_NO_RANDOMIZE`.
const PERSONALITIES: &[u32] = &[0, 0xffff_ffff, 0x0004_0000];

const S_IFMT: u32 = 0xf000;
const S_IFCHR: u32 = 0x2000;
const S_IFBLK: u32 = 0x6000;

/// The kernel takes a mode as `umode_t`, 16 bits; these are among them, so no bit above counts.
const S_ISUID_S_ISGID: u32 = 0o6000;
/// `O_CREAT | __O_TMPFILE`, the kernel's `WILL_CREATE`: without one of them it drops the mode. The
/// same on both architectures, unlike the `O_DIRECTORY` that `O_TMPFILE` has in it too.
const WILL_CREATE: u32 = 0o100 | 0o20_000_000;

const MAP_SHARED: u32 = 1;
const MAP_ANONYMOUS: u32 = 0x20;
const MAP_GROWSDOWN: u32 = 0x100;
const MAP_HUGETLB: u32 = 0x4_0000;
const MFD_HUGETLB: u32 = 4;
const SHM_HUGETLB: u32 = 0o4000;
const SIGCONT: u32 = 18;
/// Chooses the signal of `O_ASYNC`, which can be SIGCONT.
const F_SETSIG: u32 = 10;
const F_SETLEASE: u32 = 1024;
const F_NOTIFY: u32 = 1026;
const F_SETPIPE_SZ: u32 = 1031;
/// Size of a new pipe where pages have 4 KiB, by pipe(7): 16 of them. Up to 1 MiB may be requested without a
/// capability, and all pages of a user's pipes count against `fs.pipe-user-pages-soft`, by default 64 MiB: past that
/// the user's other programs get pipes of one or two pages.
const PIPE_BYTES_MAX: u32 = 64 << 10;

/// Leaves a character device 0:0 where the file was.
const RENAME_WHITEOUT: u32 = 4;

const RLIMIT_CORE: u32 = 4;

pub(super) const PRIO_PROCESS: u32 = 0;
pub(super) const IOPRIO_WHO_PROCESS: u32 = 1;

/// Level of `SO_*`.
const SOL_SOCKET: u32 = 1;
const SO_PEERPIDFD: u32 = 77;
const IPPROTO_IP: u32 = 0;
const IPPROTO_IPV6: u32 = 41;

/// Options that clients set on sockets: `SO_REUSEADDR`, `SO_SNDBUF`, `SO_RCVBUF`, `SO_KEEPALIVE`, `SO_OOBINLINE`, `SO_PRIORITY`,
/// `SO_LINGER`, `SO_REUSEPORT`, `SO_RCVLOWAT`, `SO_RCVTIMEO`, `SO_SNDTIMEO` (both forms).
const SOCKET_OPTIONS: &[u32] = &[2, 7, 8, 9, 10, 12, 13, 15, 18, 20, 21, 66, 67];

/// `TCP_NODELAY`, `TCP_MAXSEG`, `TCP_CORK`, `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`, `TCP_SYNCNT`, `TCP_LINGER2`, `TCP_QUICKACK`,
/// `TCP_CONGESTION`, `TCP_USER_TIMEOUT`, `TCP_NOTSENT_LOWAT`.
const TCP_OPTIONS: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 18, 25];

/// `IP_TOS`, `IP_MTU_DISCOVER`, `IP_RECVERR`, `IP_BIND_ADDRESS_NO_PORT`.
const IP_OPTIONS: &[u32] = &[1, 10, 11, 24];

/// `IPV6_RECVERR`, `IPV6_V6ONLY`, `IPV6_TCLASS`.
const IPV6_OPTIONS: &[u32] = &[25, 26, 67];

/// The guards of `check` under `spec`, which is normalised.
pub(super) fn guards(check: Check, spec: FilterSpec) -> Vec<Guard> {
    match check {
        Check::Clone => vec![no_bits(0, CLONE_NEW, &reasons::NAMESPACES)],
        Check::CloneThread => vec![
            no_bits(0, CLONE_NEW, &reasons::NAMESPACES),
            refuse(0, &reasons::PROCESSES, [bits(0, CLONE_THREAD).these(&[0])]),
        ],
        Check::Unshare => {
            vec![no_bits(0, CLONE_NEW | CLONE_NEWTIME, &reasons::NAMESPACES)]
        }
        Check::UnshareNothing => {
            let mut guards = guards(Check::Unshare, spec);
            guards.push(refuse(0, &reasons::OUTSIDE_CODE, []));
            guards
        }
        Check::Socket => socket(spec),
        Check::NoSocket => vec![
            refuse(0, &reasons::NAME_SERVICE, [whole(0).these(&[AF_UNIX])]),
            refuse(0, &reasons::SOCKETS, []),
        ],
        // A pair that is connected to itself still takes an address in sendto, if it is of
        // datagrams.
        Check::SocketPair => vec![
            refuse(0, &reasons::SOCKET_FAMILY, [whole(0).others(&[AF_UNIX])]),
            refuse(
                1,
                &reasons::UNIX_DATAGRAM,
                [bits(1, SOCK_TYPE_MASK).others(&[SOCK_STREAM, SOCK_SEQPACKET])],
            ),
        ],
        Check::SocketPairStream => vec![
            refuse(0, &reasons::SOCKET_FAMILY, [whole(0).others(&[AF_UNIX])]),
            refuse(1, &reasons::SOCKETS, [bits(1, SOCK_TYPE_MASK).others(&[SOCK_STREAM])]),
        ],
        // The address is behind a pointer, so every connect goes to the supervisor, which reads it
        // once and performs the connect itself on a duplicate of the socket.
        Check::Connect if spec.decides_connects() => vec![refuse(1, &reasons::UNIX_CONNECT, [])],
        // Without an address listen(2) takes a port of its own.
        Check::Serve if spec.inet == Inet::Redirected => {
            vec![Guard {
                when: [None, None],
                then: Outcome::Refuse { reason: &reasons::SERVER_SOCKET, argument: None },
            }]
        }
        // The other end of a pair may be the host's: with its pidfd a guest could have the host kill itself.
        Check::GetOption => vec![refuse(
            2,
            &reasons::SOCKET_OPTION,
            [whole(1).these(&[SOL_SOCKET]), whole(2).these(&[SO_PEERPIDFD])],
        )],
        // SO_BINDTODEVICE sends a connection to 127.0.0.1 out of the host, IP_MINTTL and TCP fast open leave one half made.
        Check::SetOption if spec.inet == Inet::Redirected => {
            let allow = |level: &'static [u32], names| Guard {
                when: [Some(whole(1).these(level)), Some(whole(2).these(names))],
                then: Outcome::Allow,
            };
            vec![
                allow(&[SOL_SOCKET], SOCKET_OPTIONS),
                allow(&[IPPROTO_TCP], TCP_OPTIONS),
                allow(&[IPPROTO_IP], IP_OPTIONS),
                allow(&[IPPROTO_IPV6], IPV6_OPTIONS),
                refuse(2, &reasons::SOCKET_OPTION, []),
            ]
        }
        Check::Connect | Check::Serve | Check::SetOption => vec![],
        // Sending needs no rule for unix sockets: with an address, a stream socket fails and a
        // seqpacket socket ignores it (net/unix/af_unix.c), and datagram sockets do not exist here.
        // But MSG_FASTOPEN connects a TCP socket without connect(2), past the supervisor and past
        // Landlock, whose TCP rules hook connect alone.
        Check::Send(flags) => {
            vec![no_bits(flags, MSG_FASTOPEN, &reasons::TCP_FAST_OPEN)]
        }
        Check::Prctl => vec![refuse(0, &reasons::PROCESS_LAYOUT, [whole(0).these(&[PR_SET_MM])])],
        Check::PrctlQueries => {
            vec![refuse(0, &reasons::PROCESS_CONTROL, [whole(0).others(PR_QUERIES)])]
        }
        Check::Ioctl => vec![
            refuse(1, &reasons::TERMINAL_INJECTION, [whole(1).these(TERMINAL_REQUESTS)]),
            Guard { when: [Some(whole(1).these(CLONE_REQUESTS)), None], then: Outcome::Allow },
            refuse(1, &reasons::SNAPSHOTS, [bits(1, REQUEST_KIND).these(SNAPSHOT_KINDS)]),
            refuse(
                1,
                &reasons::FILE_HANDLES,
                [bits(1, REQUEST_KIND_AND_NUMBER).these(HANDLE_REQUESTS)],
            ),
            refuse(
                1,
                &reasons::FILE_ENCRYPTION,
                [bits(1, REQUEST_KIND_AND_NUMBER).these(ENCRYPTION_REQUESTS)],
            ),
        ],
        Check::IoctlQueries => vec![
            refuse(1, &reasons::TERMINAL_INJECTION, [whole(1).these(TERMINAL_REQUESTS)]),
            refuse(1, &reasons::DEVICE_CONTROL, [whole(1).others(QUERY_REQUESTS)]),
        ],
        Check::Personality => {
            vec![refuse(0, &reasons::PERSONALITY, [whole(0).others(PERSONALITIES)])]
        }
        // Most opens make no file, and the first condition settles those.
        Check::Open { flags, mode } => vec![refuse(
            mode,
            &reasons::SETUID_BIT,
            [bits(flags, WILL_CREATE).others(&[0]), bits(mode, S_ISUID_S_ISGID).others(&[0])],
        )],
        Check::Mode(mode) => {
            vec![no_bits(mode, S_ISUID_S_ISGID, &reasons::SETUID_BIT)]
        }
        Check::MakeNode(mode) => vec![
            refuse(mode, &reasons::DEVICE_NODES, [bits(mode, S_IFMT).these(&[S_IFCHR, S_IFBLK])]),
            no_bits(mode, S_ISUID_S_ISGID, &reasons::SETUID_BIT),
        ],
        Check::RenameFlags(flags) => {
            vec![no_bits(flags, RENAME_WHITEOUT, &reasons::DEVICE_NODES)]
        }
        // An administrator reserves the pool for others, and no limit on memory counts pages taken from it: neither a
        // memory cgroup's, nor one on resident memory.
        Check::OrdinaryMemory => vec![no_bits(3, MAP_HUGETLB, &reasons::HUGE_PAGES)],
        // MAP_SHARED_VALIDATE has both bits of the type, and is shared too.
        Check::CountedMemory => vec![
            no_bits(3, MAP_HUGETLB, &reasons::HUGE_PAGES),
            no_bits(3, MAP_GROWSDOWN, &reasons::SHARED_MEMORY),
            refuse(
                3,
                &reasons::SHARED_MEMORY,
                [bits(3, MAP_ANONYMOUS).others(&[0]), bits(3, MAP_SHARED).others(&[0])],
            ),
        ],
        Check::Fcntl => {
            vec![pipe_size(), refuse(1, &reasons::LEASES, [whole(1).these(&[F_SETLEASE])])]
        }
        Check::FcntlOfCode => {
            let watch = whole(1).these(&[F_SETSIG, F_SETLEASE, F_NOTIFY]);
            vec![pipe_size(), refuse(1, &reasons::OUTSIDE_CODE, [watch])]
        }
        Check::NoWaking(signal) => {
            vec![refuse(signal, &reasons::PROCESS_CONTROL, [whole(signal).these(&[SIGCONT])])]
        }
        Check::SendRights => match spec.observe {
            Observe::Notify => vec![],
            Observe::Errno => vec![always(&reasons::SOCKETS)],
        },
        Check::OwnPages => vec![refuse(0, &reasons::PAGE_PLACEMENT, [whole(0).others(&[0])])],
        // A filter cannot know the caller's own ids, so 0 is the only id by which it recognises the caller.
        Check::OwnProcess => match spec.ipc {
            Ipc::Own => vec![],
            Ipc::Refused => vec![refuse(0, &reasons::FOREIGN_PROCESS, [whole(0).others(&[0])])],
        },
        Check::CoreLimit => {
            vec![refuse(0, &reasons::CORE_LIMIT, [whole(0).these(&[RLIMIT_CORE])])]
        }
        // Without a new limit it only queries the current one, and getrlimit(3) is this call.
        Check::OwnLimits => {
            let core = whole(1).these(&[RLIMIT_CORE]);
            let mut guards = guards(Check::OwnProcess, spec);
            guards.extend(
                [whole(2), high(2)]
                    .map(|half| refuse(1, &reasons::CORE_LIMIT, [core, half.others(&[0])])),
            );
            guards
        }
        // 0 as a user is the caller's, with all its processes on the host; 0 as a group is the
        // caller's too, but setpgid can make that any of its session.
        Check::OwnPriority { process } => match spec.ipc {
            Ipc::Own => vec![],
            Ipc::Refused => vec![
                refuse(0, &reasons::FOREIGN_PROCESS, [whole(0).others(process)]),
                refuse(1, &reasons::FOREIGN_PROCESS, [whole(1).others(&[0])]),
            ],
        },
        Check::SharedMemory => match spec.shared_memory {
            SharedMemory::Allowed => vec![no_bits(1, MFD_HUGETLB, &reasons::HUGE_PAGES)],
            SharedMemory::Refused => vec![always(&reasons::SHARED_MEMORY)],
        },
        Check::SharedSegments => match (spec.shared_memory, spec.ipc) {
            (SharedMemory::Allowed, Ipc::Own) => vec![],
            (SharedMemory::Refused, _) => vec![always(&reasons::SHARED_MEMORY)],
            (SharedMemory::Allowed, Ipc::Refused) => vec![always(&reasons::IPC)],
        },
        Check::NewSegment => {
            let mut guards = guards(Check::SharedSegments, spec);
            guards.push(no_bits(2, SHM_HUGETLB, &reasons::HUGE_PAGES));
            guards
        }
        Check::Attributes => match spec.ipc {
            Ipc::Own => vec![],
            Ipc::Refused => vec![always(&reasons::ATTRIBUTES)],
        },
        Check::Ipc => match spec.ipc {
            Ipc::Own => vec![],
            Ipc::Refused => vec![always(&reasons::IPC)],
        },
    }
}

/// fcntl: `F_SETPIPE_SZ`.
fn pipe_size() -> Guard {
    let large = [whole(1).these(&[F_SETPIPE_SZ]), whole(2).above(PIPE_BYTES_MAX)];
    refuse(2, &reasons::PIPE_SIZE, large)
}

/// socket(domain, type, protocol)
fn socket(spec: FilterSpec) -> Vec<Guard> {
    let unix = whole(0).these(&[AF_UNIX]);
    let unix_rules = match spec.unix_sockets {
        UnixSockets::Refused => vec![refuse(0, &reasons::UNIX_SOCKETS, [unix])],
        // A datagram socket sends to any path without connect, so the supervisor would never be notified. SOCK_RAW is
        // one too: unix_create turns it into SOCK_DGRAM.
        UnixSockets::Supervised => vec![
            refuse(
                1,
                &reasons::UNIX_DATAGRAM,
                [unix, bits(1, SOCK_TYPE_MASK).others(&[SOCK_STREAM, SOCK_SEQPACKET])],
            ),
            Guard { when: [Some(unix), None], then: Outcome::Allow },
        ],
    };
    let protocols = [
        refuse(
            1,
            &reasons::RAW_SOCKET,
            [bits(1, SOCK_TYPE_MASK).others(&[SOCK_STREAM, SOCK_DGRAM])],
        ),
        refuse(2, &reasons::PING_SOCKET, [whole(2).these(&[IPPROTO_ICMP, IPPROTO_ICMPV6])]),
        // Go requests MPTCP at every listener and falls back on this very error.
        refuse(2, &reasons::MULTIPATH_TCP, [whole(2).these(&[IPPROTO_MPTCP])]),
        refuse(2, &reasons::SOCKET_PROTOCOL, [whole(2).others(&[0, IPPROTO_TCP, IPPROTO_UDP])]),
    ];
    let datagrams = refuse(1, &reasons::UDP_SOCKET, [bits(1, SOCK_TYPE_MASK).these(&[SOCK_DGRAM])]);
    let inet_rules = match spec.inet {
        Inet::Refused => vec![refuse(0, &reasons::INTERNET_SOCKETS, [])],
        Inet::Redirected => [datagrams].into_iter().chain(protocols).collect(),
        Inet::Allowed => protocols.to_vec(),
    };
    let mut guards = vec![
        refuse(0, &reasons::NETLINK, [whole(0).these(&[AF_NETLINK])]),
        refuse(0, &reasons::SOCKET_FAMILY, [whole(0).others(&[AF_UNIX, AF_INET, AF_INET6])]),
    ];
    guards.extend(unix_rules);
    guards.extend(inet_rules);
    guards
}

fn refuse<const N: usize>(argument: u8, reason: &'static Reason, when: [Condition; N]) -> Guard {
    const { assert!(N <= 2, "a guard has room for two conditions") };
    let then = Outcome::Refuse { reason, argument: Some(argument) };
    Guard { when: [when.first().copied(), when.get(1).copied()], then }
}

/// None of `mask` may be in the argument.
fn no_bits(argument: u8, mask: u32, reason: &'static Reason) -> Guard {
    refuse(argument, reason, [bits(argument, mask).others(&[0])])
}

fn always(reason: &'static Reason) -> Guard {
    Guard { when: [None; 2], then: Outcome::Refuse { reason, argument: None } }
}

/// A masked half of an argument, to be compared.
#[derive(Clone, Copy)]
struct Bits {
    argument: u8,
    half: Half,
    mask: u32,
}

fn whole(argument: u8) -> Bits {
    bits(argument, u32::MAX)
}

fn bits(argument: u8, mask: u32) -> Bits {
    Bits { argument, half: Half::Low, mask }
}

fn high(argument: u8) -> Bits {
    Bits { argument, half: Half::High, mask: u32::MAX }
}

impl Bits {
    fn these(self, values: &'static [u32]) -> Condition {
        self.condition(Test::These(values))
    }

    fn others(self, values: &'static [u32]) -> Condition {
        self.condition(Test::Others(values))
    }

    fn above(self, value: u32) -> Condition {
        self.condition(Test::Above(value))
    }

    fn condition(self, test: Test) -> Condition {
        let Self { argument, half, mask } = self;
        Condition { argument, half, mask, test }
    }
}

impl Condition {
    pub(super) fn holds(&self, args: &[u64; 6]) -> bool {
        let arg = args.get(usize::from(self.argument)).copied().unwrap_or_default();
        let half = match self.half {
            Half::Low => arg,
            Half::High => arg >> 32,
        };
        let seen = half & u64::from(self.mask);
        let listed = |values: &[u32]| values.iter().any(|&value| u64::from(value) == seen);
        match self.test {
            Test::These(values) => listed(values),
            Test::Others(values) => !listed(values),
            Test::Above(value) => seen > u64::from(value),
        }
    }
}
