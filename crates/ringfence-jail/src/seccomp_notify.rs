//! Answers the filter's notifications: refuses and records, or performs a connect for the run. Never lets the kernel
//! continue a call after reading its arguments: the run could change them in between. One exception: the first `execve` of
//! a one-shot Python program, which Ringfence's own code makes.

use std::collections::VecDeque;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_plan::seccomp::{self, FilterSpec, Inet};
use ringfence_plan::{DNS_PORT, FileId, PROXY_PORT};
use ringfence_spec::invisible::is_invisible;
use ringfence_spec::{Denial, DenialRule, DeniedBy, Hint, Layer, escape_name};
use ringfence_sys::CallError;
use ringfence_sys::seccomp::Notification;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use crate::child;
use crate::descriptors::is_in_reserve;
use crate::network::{Capture, Client, Clients, Redirects};

/// Maximum number of distinct denials recorded; further ones are only counted.
const DENIALS_MAX: usize = 256;

/// Refusals answered at full speed. A run that goes on gets its answers more slowly.
const FREE_REFUSALS: u64 = 300;

/// Delay of each answer after [`FREE_REFUSALS`].
const BACK_PRESSURE: Duration = Duration::from_millis(1);

/// Connects that may wait for a peer at the same time.
const CONNECTS_MAX: usize = 64;

/// Connects that may wait for one of those to end.
const WAITING_CONNECTS_MAX: usize = 4096;

/// Waiting connects whose callers are checked when one more has no place.
const CHECKED_AT_ONCE_MAX: usize = 64;

/// The longest address: `struct sockaddr_storage`.
const ADDRESS_BYTES_MAX: usize = 128;

/// The proxy, as the variables of a run name it.
const PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PROXY_PORT);

const AF_UNSPEC: u16 = 0;
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// The listener of one run.
pub(crate) struct Listener {
    fd: Arc<OwnedFd>,
    spec: FilterSpec,
    own_dev: Option<u64>,
    sockets: Vec<FileId>,
    /// uid and gid to connect with, if they differ from this process's.
    connect_as: Option<(u32, u32)>,
    /// Number of execve calls still allowed: one, for a profile in which execve needs permission.
    execs_left: u32,
    denials: Vec<Denial>,
    n_refused: u64,
    n_unlisted: u64,
    connects: ConnectQueue,
    names: ProgramNames,
}

impl Listener {
    /// A listener that allows unix connects to sockets on the device `own_dev` and to `sockets`.
    pub(crate) fn new(
        fd: OwnedFd,
        spec: FilterSpec,
        own_dev: Option<u64>,
        sockets: Vec<FileId>,
        connect_as: Option<(u32, u32)>,
    ) -> Self {
        ringfence_sys::seccomp::take_turns_on_one_processor(&fd);
        Self {
            fd: Arc::new(fd),
            spec,
            own_dev,
            sockets,
            connect_as,
            execs_left: u32::from(spec.profile == seccomp::Profile::Code),
            denials: Vec::new(),
            n_refused: 0,
            n_unlisted: 0,
            connects: ConnectQueue::default(),
            names: ProgramNames::default(),
        }
    }

    /// Returns true if an answer may need a thread.
    pub(crate) fn starts_threads(&self) -> bool {
        self.spec.decides_connects()
    }

    /// The descriptor to wait on.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Answers one waiting call.
    pub(crate) fn step(&mut self, capture: Option<&mut Capture>) -> Result<(), CallError> {
        let Some(call) = ringfence_sys::seccomp::receive(&*self.fd)? else { return Ok(()) };
        if self.spec.supervises(call.nr) {
            return self.connect(&call, capture);
        }
        let verdict = seccomp::explain(&self.spec, call.nr, &call.args);
        let name = seccomp::name(self.spec.arch, call.nr).unwrap_or("unknown");
        if name == "execve" && self.execs_left > 0 {
            // Until this call returns, the process runs Ringfence's code in one thread, so its arguments cannot change.
            self.execs_left -= 1;
            return ringfence_sys::seccomp::let_through(&*self.fd, call.id);
        }
        let argument = verdict.argument.and_then(|i| call.args.get(usize::from(i)).copied());
        let network = matches!(name, "socket" | "socketpair" | "connect" | "bind");
        let subject = match argument {
            Some(value) => format!("{name}({value:#x})"),
            None => name.to_owned(),
        };
        let denial = Denial {
            layer: if network { Layer::Network } else { Layer::Syscalls },
            rule: verdict.rule,
            subject,
            line: None,
            column: None,
            hint: verdict.hint.into(),
            by: DeniedBy::Host,
            syscall: Some(name.to_owned()),
            argument: argument.map(|value| format!("{value:#x}")),
            pid: Some(call.pid),
            program: self.names.of(call.pid),
            count: 1,
        };
        self.refuse(&call, denial, Errno::from_raw_os_error(verdict.errno))
    }

    /// Returns the recorded denials. Connects that still wait are given up.
    pub(crate) fn into_denials(mut self) -> Vec<Denial> {
        let mut denials = std::mem::take(&mut self.denials);
        if self.n_unlisted > 0
            && let Some(last) = denials.last().cloned()
        {
            denials.push(Denial {
                rule: DenialRule::More,
                subject: format!("{} further refusals", self.n_unlisted),
                hint: format!("only {DENIALS_MAX} different refusals are listed").into(),
                count: self.n_unlisted,
                argument: None,
                ..last
            });
        }
        denials
    }

    fn refuse(
        &mut self,
        call: &Notification,
        denial: Denial,
        errno: Errno,
    ) -> Result<(), CallError> {
        self.n_refused += 1;
        if self.n_refused > FREE_REFUSALS {
            std::thread::sleep(BACK_PRESSURE);
        }
        self.remember(denial);
        ringfence_sys::seccomp::reply(&*self.fd, call.id, Err(errno))
    }

    fn remember(&mut self, denial: Denial) {
        // An interpreter whose vfork is refused tries fork and clone: one attempt.
        let is_same = |d: &Denial| d.subject == denial.subject || d.rule == DenialRule::Processes;
        let same = self
            .denials
            .iter_mut()
            .find(|d| d.rule == denial.rule && is_same(d) && d.program == denial.program);
        if let Some(known) = same {
            known.count += 1;
        } else if self.denials.len() < DENIALS_MAX {
            self.denials.push(denial);
        } else {
            self.n_unlisted += 1;
        }
    }

    /// connect(2), decided on a duplicate of the socket and a copy of the address, so that neither can change.
    fn connect(
        &mut self,
        call: &Notification,
        capture: Option<&mut Capture>,
    ) -> Result<(), CallError> {
        let answer = match self.target(call, capture.as_deref()) {
            Ok(Target::Perform { socket, to }) => {
                let clients = capture.map(|capture| capture.clients.clone());
                return self.perform(call, ConnectJob { socket, to, clients });
            }
            Ok(Target::NotAllowed(peer, errno)) => {
                if let Some(capture) = capture {
                    capture.refused(peer, client(call));
                }
                Err(errno)
            }
            Ok(Target::Refuse(denial)) => {
                return self.refuse(call, *denial, Errno::ACCESS);
            }
            Ok(Target::Unreachable(denial)) => {
                return self.refuse(call, *denial, Errno::NETUNREACH);
            }
            Err(errno) => Err(errno),
        };
        ringfence_sys::seccomp::reply(&*self.fd, call.id, answer)
    }

    fn target(&self, call: &Notification, capture: Option<&Capture>) -> Result<Target, Errno> {
        // Arguments are `int fd, const void *addr, int len`: the kernel uses the low 32 bits of the first and third.
        #[allow(clippy::cast_possible_truncation)]
        let (fd, length) = ((call.args[0] as u32).cast_signed(), call.args[2] as u32 as usize);
        if length > ADDRESS_BYTES_MAX {
            return Err(Errno::INVAL);
        }
        // rustix asserts that a descriptor is not negative.
        if fd < 0 {
            return Err(Errno::BADF);
        }
        let pidfd = process_of(call.pid).ok_or(Errno::SRCH)?;
        let mut address = vec![0u8; length];
        let mem = rustix::fs::open(
            format!("/proc/{}/mem", call.pid),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let mem = match mem {
            Err(Errno::ACCESS | Errno::PERM) => {
                return Ok(Target::Refuse(Box::new(unreadable(call))));
            }
            mem => mem?,
        };
        if length > 0 {
            let n = rustix::io::pread(&mem, &mut address[..], call.args[1])
                .map_err(|_| Errno::FAULT)?;
            if n < length {
                return Err(Errno::FAULT);
            }
        }
        let socket = rustix::process::pidfd_getfd(&pidfd, fd, PidfdGetfdFlags::empty())?;
        // Only now is it sure that pid, memory and descriptor were the caller's and not a successor's.
        if !ringfence_sys::seccomp::is_waiting(&*self.fd, call.id) {
            return Err(Errno::SRCH);
        }
        if self.spec.inet == Inet::Redirected {
            return redirected(&address, socket, capture);
        }
        let domain = rustix::net::sockopt::socket_domain(&socket)?;
        if let Some(peer) = internet_peer(&address).filter(|_| domain != AddressFamily::UNIX) {
            // Only connections are judged: resolvers connect a UDP socket to learn which address they would send from.
            let is_stream = rustix::net::sockopt::socket_type(&socket)? == SocketType::STREAM;
            return Ok(match capture {
                None => Target::Unreachable(Box::new(no_network(call, peer))),
                Some(_) if peer.port() == DNS_PORT => {
                    Target::Perform { socket, to: ConnectTo::address(address) }
                }
                Some(capture) if capture.is_closed() => Target::NotAllowed(peer, Errno::NETUNREACH),
                Some(capture) if is_stream && !capture.holds(peer.port()) => {
                    Target::NotAllowed(peer, Errno::CONNREFUSED)
                }
                Some(_) => Target::Perform { socket, to: ConnectTo::address(address) },
            });
        }
        if domain != AddressFamily::UNIX {
            return Ok(Target::Perform { socket, to: ConnectTo::address(address) });
        }
        let family = address.first_chunk::<2>().map(|b| u16::from_ne_bytes(*b));
        if family != Some(AF_UNIX) {
            // AF_UNSPEC and nonsense: the kernel's own answer is right.
            return Ok(Target::Perform { socket, to: ConnectTo::address(address) });
        }
        let name = &address[2..];
        if name.first().is_none_or(|b| *b == 0) {
            // Abstract names live in the run's own network namespace.
            return Ok(Target::Perform { socket, to: ConnectTo::address(address) });
        }
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let path = Path::new(std::ffi::OsStr::from_bytes(name));
        self.unix_target(call, socket, path)
    }

    fn unix_target(
        &self,
        call: &Notification,
        socket: OwnedFd,
        path: &Path,
    ) -> Result<Target, Errno> {
        let node = match open_as_run(call.pid, path) {
            Err(Errno::XDEV) => {
                let hint = "a relative socket name that leads out of the working directory, by `..` or by a link, is not followed; connect to the socket's absolute path";
                return Ok(Target::Refuse(Box::new(unix_denial(call, path, hint.into()))));
            }
            other => other?,
        };
        let stat = rustix::fs::fstat(&node)?;
        let id = FileId { dev: stat.st_dev, ino: stat.st_ino };
        let own = self.own_dev == Some(id.dev);
        if own || self.sockets.contains(&id) {
            // The path may be exchanged at any time; the descriptor cannot.
            let address = format!("/proc/self/fd/{}", node.as_raw_fd());
            let mut bytes = AF_UNIX.to_ne_bytes().to_vec();
            bytes.extend_from_slice(address.as_bytes());
            bytes.push(0);
            let to = ConnectTo::Address { bytes, _keep: Some(node) };
            return Ok(Target::Perform { socket, to });
        }
        let shown = escape_name(&path.to_string_lossy()).into_owned();
        let hint = match ringfence_plan::power_of_socket(&shown) {
            Some(power) => format!(
                "do without `{shown}`: the server behind it {power}, which would undo the fence"
            )
            .into(),
            None => Hint::Socket(shown),
        };
        Ok(Target::Refuse(Box::new(unix_denial(call, path, hint))))
    }

    /// Connects for the run, on a thread: the run shares the socket and can make it block at any moment, and a peer may
    /// be slow. Uses the run's own user, because the peer may ask the kernel for the credentials of the client.
    fn perform(&mut self, call: &Notification, job: ConnectJob) -> Result<(), CallError> {
        let id = call.id;
        let (client, listener) = (client(call), Arc::clone(&self.fd));
        let waiting = WaitingConnect { id, job, client, listener, has_waited: false };
        if self.connects.submit(waiting, self.connect_as) {
            return Ok(());
        }
        ringfence_sys::seccomp::reply(&*self.fd, id, Err(Errno::AGAIN))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.connects.close();
    }
}

/// A connect to perform.
struct ConnectJob {
    socket: OwnedFd,
    to: ConnectTo,
    clients: Option<Clients>,
}

impl ConnectJob {
    /// Returns true if it holds descriptors that this process keeps for its own work.
    fn is_in_reserve(&self) -> bool {
        let node = match &self.to {
            ConnectTo::Address { _keep: node, .. } => node.as_ref(),
            ConnectTo::Helper(_) => None,
        };
        is_in_reserve(&self.socket) || node.is_some_and(is_in_reserve)
    }
}

/// Peer of a connect.
enum ConnectTo {
    Address {
        bytes: Vec<u8>,
        /// Kept open until the connect is done.
        _keep: Option<OwnedFd>,
    },
    /// The network helper, by a connection that this process accepts.
    Helper(Redirects),
}

impl ConnectTo {
    fn address(bytes: Vec<u8>) -> Self {
        Self::Address { bytes, _keep: None }
    }
}

/// A connect and the call that waits for its result.
struct WaitingConnect {
    id: u64,
    job: ConnectJob,
    client: Client,
    listener: Arc<OwnedFd>,
    /// True if no thread was free for it.
    has_waited: bool,
}

impl WaitingConnect {
    /// Returns true if the call waits for its result: it was not interrupted, and its thread lives.
    fn has_caller(&self) -> bool {
        ringfence_sys::seccomp::is_waiting(&*self.listener, self.id)
    }

    /// Closes its descriptors. The answer is for a call that waits though it was not seen: a signal can interrupt the check.
    fn give_up(self) {
        let _ = ringfence_sys::seccomp::reply(&*self.listener, self.id, Err(Errno::AGAIN));
    }

    /// Connects, on a thread that has tried to become the run's user.
    fn perform(self, became: Result<(), Errno>) {
        if self.has_waited && !self.has_caller() {
            return self.give_up();
        }
        let ConnectJob { socket, to, clients } = self.job;
        let connect = || match &to {
            ConnectTo::Address { bytes, .. } => ringfence_sys::connect_raw(&socket, bytes),
            ConnectTo::Helper(redirects) => redirects.connect(&socket),
        };
        let answer = became.and_then(|()| connect()).map(|()| 0);
        drop(to);
        // A socket that does not block is on its way: it has its port already.
        if let Some(clients) = clients.filter(|_| matches!(answer, Ok(_) | Err(Errno::INPROGRESS)))
        {
            clients.remember(socket.as_fd(), self.client);
        }
        // The run may be gone by now; then there is no call to answer.
        let _ = ringfence_sys::seccomp::reply(&*self.listener, self.id, answer);
    }
}

/// Threads that perform connects, and the connects that wait for one.
#[derive(Clone, Default)]
struct ConnectQueue(Arc<Mutex<ConnectQueueState>>);

#[derive(Default)]
struct ConnectQueueState {
    n_threads: usize,
    waiting: VecDeque<WaitingConnect>,
    /// Position in `waiting` of the next whose caller is checked.
    next_checked: usize,
    /// Connects without a caller, to be closed on a thread: closing the last descriptor of a socket takes as long as the run says
    /// (`SO_LINGER`).
    abandoned: Vec<WaitingConnect>,
    /// True while a thread closes them.
    is_closing: bool,
}

impl ConnectQueueState {
    /// Takes out those of the next few connects whose callers do not wait any more: the run can interrupt or kill each.
    fn take_abandoned(&mut self) {
        for _ in 0..CHECKED_AT_ONCE_MAX.min(self.waiting.len()) {
            if self.next_checked >= self.waiting.len() {
                self.next_checked = 0;
            }
            if self.waiting.get(self.next_checked).is_some_and(WaitingConnect::has_caller) {
                self.next_checked += 1;
            } else {
                self.abandoned.extend(self.waiting.remove(self.next_checked));
            }
        }
    }
}

impl ConnectQueue {
    fn lock(&self) -> MutexGuard<'_, ConnectQueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a connect on a thread, now or after those before it. Returns false if there is no place for it: too many wait, or
    /// too few descriptors are left.
    fn submit(&self, mut connect: WaitingConnect, identity: Option<(u32, u32)>) -> bool {
        let mut state = self.lock();
        let takes_reserve = connect.job.is_in_reserve();
        if takes_reserve || state.waiting.len() >= WAITING_CONNECTS_MAX {
            if !state.is_closing {
                state.take_abandoned();
                state.is_closing = !state.abandoned.is_empty() && self.start_closing();
            }
            // What is closed makes place for the next: this one has its descriptors.
            if takes_reserve || state.waiting.len() >= WAITING_CONNECTS_MAX {
                return false;
            }
        }
        connect.has_waited = state.n_threads >= CONNECTS_MAX;
        state.waiting.push_back(connect);
        if state.n_threads >= CONNECTS_MAX {
            return true;
        }
        let queue = self.clone();
        // The thread ends when no connect waits, at the latest when the run's sockets close.
        let spawned =
            std::thread::Builder::new().stack_size(128 << 10).spawn(move || queue.work(identity));
        if spawned.is_ok() {
            state.n_threads += 1;
        }
        // Without a thread of its own it waits for one of the others, if there is one.
        state.n_threads > 0 || state.waiting.pop_back().is_none()
    }

    /// Gives up the connects that wait. A thread may be connecting to a socket of the run that lives only in messages of another
    /// that waits here.
    fn close(&self) {
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.waiting);
        state.abandoned.extend(waiting);
        if !state.abandoned.is_empty() && !self.start_closing() {
            // Not closed on this thread, which has a deadline; the process ends soon.
            std::mem::forget(std::mem::take(&mut state.abandoned));
        }
    }

    /// Starts a thread that closes abandoned connects. Returns false if there can be none.
    fn start_closing(&self) -> bool {
        let queue = self.clone();
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        thread.spawn(move || queue.close_abandoned()).is_ok()
    }

    fn close_abandoned(self) {
        loop {
            let mut state = self.lock();
            let abandoned = std::mem::take(&mut state.abandoned);
            if abandoned.is_empty() {
                state.is_closing = false;
                return;
            }
            drop(state);
            abandoned.into_iter().for_each(WaitingConnect::give_up);
        }
    }

    fn work(self, identity: Option<(u32, u32)>) {
        // Once: a thread that became another user cannot become it again.
        let became = become_user(identity);
        loop {
            let mut state = self.lock();
            let Some(connect) = state.waiting.pop_front() else {
                state.n_threads -= 1;
                return;
            };
            drop(state);
            connect.perform(became);
        }
    }
}

fn client(call: &Notification) -> Client {
    Client { pid: call.pid, program: program_name(call.pid) }
}

/// Makes this thread, and no other, the user the run is on the host.
fn become_user(identity: Option<(u32, u32)>) -> Result<(), Errno> {
    match identity {
        Some((uid, gid)) => child::become_user(uid, gid).map_err(|error| error.errno),
        None => Ok(()),
    }
}

enum Target {
    /// The run has no route to the peer.
    Unreachable(Box<Denial>),
    /// No rule grants this port of any host; the connect fails with this error.
    NotAllowed(SocketAddr, Errno),
    Perform {
        socket: OwnedFd,
        to: ConnectTo,
    },
    Refuse(Box<Denial>),
}

/// Decides about a connect of a run that shares the host's network: the proxy's address leads to the helper, any other
/// nowhere.
fn redirected(address: &[u8], socket: OwnedFd, capture: Option<&Capture>) -> Result<Target, Errno> {
    let family = address.first_chunk::<2>().map(|b| u16::from_ne_bytes(*b));
    let Some(capture) = capture else { return Err(Errno::NETUNREACH) };
    match (peer(address), &capture.redirects) {
        (Some(_), _) if capture.is_lost() => Err(Errno::CONNREFUSED),
        (Some(peer), Some(redirects)) if peer == PROXY => {
            Ok(Target::Perform { socket, to: ConnectTo::Helper(redirects.clone()) })
        }
        (Some(peer), _) => Ok(Target::NotAllowed(peer, Errno::CONNREFUSED)),
        // Ends a connection.
        (None, _) if family == Some(AF_UNSPEC) => {
            Ok(Target::Perform { socket, to: ConnectTo::address(address.to_owned()) })
        }
        (None, _) => Err(Errno::AFNOSUPPORT),
    }
}

/// Returns the peer of a connect that leaves the host. Loopback is the run's own.
fn internet_peer(address: &[u8]) -> Option<SocketAddr> {
    peer(address).filter(|peer| !peer.ip().is_loopback() && !peer.ip().is_unspecified())
}

/// Returns the peer of a connect by TCP or UDP.
fn peer(address: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*address.first_chunk::<2>()?);
    let port = u16::from_be_bytes(address.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match family {
        AF_INET => <[u8; 4]>::try_from(address.get(4..8)?).ok()?.into(),
        AF_INET6 => <[u8; 16]>::try_from(address.get(8..24)?).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

fn no_network(call: &Notification, peer: SocketAddr) -> Denial {
    let subject = match peer.port() {
        DNS_PORT => "name lookup".to_owned(),
        _ => format!("connect({peer})"),
    };
    let hint = "this run has no network; work with the files that are here";
    Denial {
        subject,
        argument: Some(peer.to_string()),
        ..connect_denial(call, DenialRule::Network, hint.into())
    }
}

fn unreadable(call: &Notification) -> Denial {
    let hint = "the address could not be read: a program that is not dumpable cannot connect here";
    connect_denial(call, DenialRule::Network, hint.into())
}

fn unix_denial(call: &Notification, path: &Path, hint: Hint) -> Denial {
    let shown = escape_name(&path.to_string_lossy()).into_owned();
    Denial {
        subject: format!("connect({shown})"),
        argument: Some(shown),
        ..connect_denial(call, DenialRule::UnixSocket, hint)
    }
}

/// A refused connect(2) whose peer is not known.
fn connect_denial(call: &Notification, rule: DenialRule, hint: Hint) -> Denial {
    Denial {
        syscall: Some("connect".to_owned()),
        pid: Some(call.pid),
        program: program_name(call.pid),
        ..Denial::new(Layer::Network, rule, "connect".to_owned(), hint)
    }
}

/// Opens `path` as the thread `pid` would, without leaving its root and without magic links. `EXDEV` means that a
/// relative name would have left the working directory.
fn open_as_run(pid: u32, path: &Path) -> Result<OwnedFd, Errno> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (from, resolve) = if path.is_absolute() {
        (format!("/proc/{pid}/root"), ResolveFlags::IN_ROOT)
    } else {
        // Relative names that climb out of the working directory are refused rather than followed.
        (format!("/proc/{pid}/cwd"), ResolveFlags::BENEATH)
    };
    let from = rustix::fs::open(from, directory, Mode::empty())?;
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat2(from.as_fd(), path, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS) => Err(Errno::ACCESS),
        // Only a relative name has something to leave.
        Err(Errno::XDEV) if path.is_absolute() => Err(Errno::ACCESS),
        other => other,
    }
}

/// A descriptor of the process that a thread belongs to.
fn process_of(tid: u32) -> Option<OwnedFd> {
    rustix::process::pidfd_open(first_thread(tid)?, PidfdFlags::empty()).ok()
}

/// The id of the process that a thread belongs to.
fn first_thread(tid: u32) -> Option<Pid> {
    let thread = Pid::from_raw(tid.try_into().ok()?)?;
    if ringfence_sys::is_first_thread(thread.as_raw_nonzero().get()) {
        return Some(thread);
    }
    // Its first line is the thread's name, which can be any bytes.
    let status = ringfence_sys::read_kernel_file(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}

/// Name that Node 24 gives its first thread, whatever the program.
const NODE_FIRST_THREAD: &str = "MainThread";

/// Name of the program that a thread belongs to.
fn program_name(tid: u32) -> Option<String> {
    ProgramNames::default().of(tid)
}

/// Reads the names of programs. Calls that are refused often come from one process, whose file is kept open: that saves four
/// system calls of each.
#[derive(Default)]
struct ProgramNames {
    last: Option<(u32, File)>,
}

impl ProgramNames {
    fn of(&mut self, tid: u32) -> Option<String> {
        // While its name can be read the first thread exists, so that its id is no other's.
        let known = self.last.as_ref().filter(|(of, _)| *of == tid);
        if let Some(name) = known.and_then(|(_, file)| comm(file)) {
            return shown_name(tid, name);
        }
        // Its first thread's: runtimes name the others after their work, such as `tokio-rt-worker`.
        let first = first_thread(tid)?.as_raw_nonzero().get().unsigned_abs();
        let file = ringfence_sys::open_kernel_file(format!("/proc/{first}/comm")).ok()?;
        let name = comm(&file)?;
        self.last = (first == tid).then_some((tid, file));
        shown_name(first, name)
    }
}

/// Reads a process's name, which can be any bytes.
fn comm(file: &File) -> Option<String> {
    // More than the kernel keeps of a name.
    let mut bytes = [0; 64];
    let n = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..n)?).into_owned())
}

/// The name as it is reported.
fn shown_name(first: u32, mut name: String) -> Option<String> {
    if name.trim_end() == NODE_FIRST_THREAD {
        #[expect(
            clippy::disallowed_methods,
            reason = "a link of the kernel's, read and not followed"
        )]
        let file = std::fs::read_link(format!("/proc/{first}/exe")).ok()?;
        name = file.file_name()?.to_string_lossy().into_owned();
    }
    // A program can set any bytes as its name; keep the printable ones.
    Some(name.chars().filter(|c| !c.is_control() && !is_invisible(*c)).take(15).collect())
}

#[cfg(test)]
#[path = "seccomp_notify_tests.rs"]
mod tests;
