//! The host's side of a run's network: holds the listeners of its namespace until something arrives on one, then starts
//! the network helper, hands them over and collects its reports. Parses no byte that came over the network.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::descriptors::is_in_reserve;
use crate::secret_source::{Reread, SecretReader};
use crate::ssh_agent;
use ringfence_plan::{
    AGENT_PACKET, CONNECTION_PACKET, HELPER_NAME, HelperOrders, ListenerKind, NetworkListener,
    NetworkPlan, NetworkWay, VALUE_PACKET,
};
use ringfence_spec::network::{NetworkVerdict, bundles};
use ringfence_spec::{
    AgentRefusal, Code, Connection, ConnectionDoor, ConnectionVerdict, Denial, DenialRule, Hint,
    Layer, NetworkEvent, Problem, PublishedPort, escape_name, escape_unseen,
};
use ringfence_sys::{CallError, IpFamily, Named as _};
use rustix::event::{EventfdFlags, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown};
use rustix::process::{Pid, WaitId, WaitIdOptions};

/// True if this program becomes the network helper when it is executed under that name.
static IS_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Tells that this program's `main` becomes the network helper if it is executed as such.
pub fn allow_network_helper() {
    IS_ALLOWED.store(true, Ordering::Release);
}

/// The longest report of the helper.
const EVENT_BYTES_MAX: usize = 8192;

/// Connections listed in the outcome; further ones are only counted.
const CONNECTIONS_MAX: usize = 1000;

/// Connections listed beyond that, to hosts that have no row yet, so that connections to one host cannot push those to another
/// out of the list; further ones to a host are added to its last row.
const OTHER_HOSTS_MAX: usize = 256;

/// Refused lookups listed, as many refused connections, and as many failed ones.
const REFUSED_MAX: usize = 256;

/// Reports read before other events of the run are looked at.
const EVENTS_AT_ONCE_MAX: usize = 1024;

/// Gaps that the helper may name.
const GAPS_MAX: usize = 16;

/// Names whose address inside the run is remembered: as many as the helper gives out.
const NAMES_MAX: usize = 4096;

/// Reported connections that wait for the name of their client.
const UNNAMED_MAX: usize = 64;

/// Clients whose program is remembered.
const CLIENTS_MAX: usize = 4096;

/// Least time between two attempts to connect to the user's SSH agent again.
const AGENT_RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// Time for the connect of a socket to this very process.
const ACCEPT_MAX: Duration = Duration::from_secs(2);

/// Reason that a run without a network namespace has no direct connections.
const PROXY_ALONE: &str = "this run reaches other hosts only through the proxy of `HTTPS_PROXY`; set the program to use it";

/// Interval between looks at the helper.
const LOOK_INTERVAL: Duration = Duration::from_millis(400);

/// Time that the helper has to report its last connections when the run is over.
const LAST_REPORTS_MAX: Duration = Duration::from_secs(3);

/// Makes every address local, if it captures, and binds the listeners; that of the SSH agent, on the new root, is bound by `listen_for_agent`. In the run's network namespace, with its capabilities. A listener
/// is missing only if the kernel has no IPv6.
pub(crate) fn capture(
    captures: bool,
    listeners: &[NetworkListener],
    listen_for_agent: impl Fn() -> Result<OwnedFd, CallError>,
) -> Result<Vec<Option<OwnedFd>>, CallError> {
    if captures {
        ringfence_sys::route_everything_to_loopback()?;
    }
    let bind = |listener: &NetworkListener| {
        let family = if listener.ipv6 { IpFamily::V6 } else { IpFamily::V4 };
        let bound = match listener.kind {
            ListenerKind::DnsUdp => ringfence_sys::receive_on_every_address(family, listener.port),
            ListenerKind::DnsTcp | ListenerKind::Captured | ListenerKind::Proxy => {
                ringfence_sys::listen_on_every_address(family, listener.port)
            }
            ListenerKind::Inward => ringfence_sys::stream_socket(family),
            ListenerKind::SshAgent => listen_for_agent(),
            // Bound on the host.
            ListenerKind::Published => return Ok(None),
        };
        match bound {
            Err(error)
                if listener.ipv6
                    && matches!(error.errno, Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) =>
            {
                Ok(None)
            }
            bound => bound.map(Some),
        }
    };
    listeners.iter().map(bind).collect()
}

/// Binds the published ports on the host's loopback address.
pub(crate) fn publish(plan: &NetworkPlan) -> Result<Vec<(NetworkListener, OwnedFd)>, Problem> {
    let bind = |port: &PublishedPort| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.host.get()));
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(OwnedFd::from(listener))
        });
        let listener =
            NetworkListener { kind: ListenerKind::Published, port: port.inside.get(), ipv6: false };
        bound.map(|fd| (listener, fd)).map_err(|error| {
            let (host, inside) = (port.host, port.inside);
            let problem = Problem::cannot_build(
                Code::PortNotFree,
                format!("cannot publish port {inside} as {address}"),
            )
            .cause(&error);
            match error.kind() {
                std::io::ErrorKind::AddrInUse => problem.hint(format!(
                    "another program has port {host}; publish it as another: `--publish {}:{inside}`",
                    host.get().checked_add(10_000).unwrap_or(18_080)
                )),
                std::io::ErrorKind::PermissionDenied => problem.hint(format!(
                    "ports below 1024 are for root; publish it as another: `--publish {}:{inside}`",
                    host.get().saturating_add(8000)
                )),
                _ => problem,
            }
        })
    };
    plan.published.iter().map(bind).collect()
}

/// Programs by the local port of a socket that the supervisor connected for them.
#[derive(Clone, Default)]
pub(crate) struct Clients(Arc<Mutex<ClientTable>>);

#[derive(Default)]
struct ClientTable {
    programs: HashMap<u16, Client>,
    order: VecDeque<u16>,
}

/// A process that asked for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) pid: u32,
    pub(crate) program: Option<String>,
}

impl Clients {
    /// Remembers the client of a connected socket.
    pub(crate) fn remember(&self, socket: BorrowedFd<'_>, client: Client) {
        let address = rustix::net::getsockname(socket).ok();
        let Some(address) = address.and_then(|a| SocketAddr::try_from(a).ok()) else { return };
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.programs.insert(address.port(), client).is_none() {
            table.order.push_back(address.port());
        }
        if table.order.len() > CLIENTS_MAX
            && let Some(oldest) = table.order.pop_front()
        {
            table.programs.remove(&oldest);
        }
    }

    fn find(&self, port: u16) -> Option<Client> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.programs.get(&port).cloned()
    }
}

/// Connections of a run without a network namespace on their way to the helper.
#[derive(Clone)]
pub(crate) struct Redirects {
    accepted: Arc<Mutex<VecDeque<OwnedFd>>>,
    /// Readable when connections wait.
    alarm: Arc<OwnedFd>,
}

impl Redirects {
    fn new() -> Result<Self, CallError> {
        let alarm = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .named(|| "eventfd")?;
        Ok(Self { accepted: Arc::default(), alarm: Arc::new(alarm) })
    }

    /// Connects a socket of the run to this process and keeps the other end for the helper. Returns the socket's own answer
    /// to connect(2). On a thread of its own: the run can make its socket block.
    ///
    /// The listener lives for this one connection, and takes only that of the socket's own address: other users of the host
    /// cannot come in.
    pub(crate) fn connect(&self, socket: &OwnedFd) -> Result<(), Errno> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| errno(&e))?;
        if is_in_reserve(&listener) {
            return Err(Errno::AGAIN);
        }
        let to = listener.local_addr().map_err(|e| errno(&e))?;
        let connected = rustix::net::connect(socket, &for_family_of(socket, to)?);
        if !matches!(connected, Ok(()) | Err(Errno::INPROGRESS)) {
            return connected;
        }
        let accepted = accept_from(&listener, socket);
        match accepted.and_then(|end| if is_in_reserve(&end) { Err(Errno::AGAIN) } else { Ok(end) })
        {
            Ok(stream) => {
                let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
                accepted.push_back(stream);
                drop(accepted);
                let _ = rustix::io::write(&self.alarm, &1u64.to_ne_bytes());
                connected
            }
            Err(errno) => {
                abandon(socket, listener);
                Err(errno)
            }
        }
    }

    /// Sends the connections to the helper. Without one they are closed.
    fn pass_on(&self, helper: Option<&OwnedFd>) {
        let _ = rustix::io::read(&self.alarm, &mut [0u8; 8]);
        let accepted =
            std::mem::take(&mut *self.accepted.lock().unwrap_or_else(PoisonError::into_inner));
        for connection in accepted {
            let Some(helper) = helper else { return };
            send_to_helper(helper, &[CONNECTION_PACKET], Some(&connection));
        }
    }
}

/// Ends a socket's attempt to connect, and only then closes the listener: the next program that has its port would be
/// reached.
fn abandon(socket: &OwnedFd, listener: TcpListener) {
    if rustix::net::connect_unspec(socket).is_err() {
        std::mem::forget(listener);
    }
}

/// Accepts the connection of this socket, and of no other.
fn accept_from(listener: &TcpListener, socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let own = rustix::net::getsockname(socket)?;
    let own = SocketAddr::try_from(own).map_err(|_| Errno::AFNOSUPPORT)?;
    let deadline = Instant::now() + ACCEPT_MAX;
    loop {
        match ringfence_sys::ready_by(listener, PollFlags::IN, deadline) {
            Ok(true) => {}
            Ok(false) => return Err(Errno::TIMEDOUT),
            Err(error) => return Err(error.errno),
        }
        let (stream, peer) = listener.accept().map_err(|e| errno(&e))?;
        if (peer.ip(), peer.port()) == (own.ip().to_canonical(), own.port()) {
            stream.set_nonblocking(true).map_err(|e| errno(&e))?;
            return Ok(stream.into());
        }
    }
}

/// An IPv4 address as a socket of either internet family takes it.
fn for_family_of(socket: &OwnedFd, to: SocketAddr) -> Result<SocketAddr, Errno> {
    match (rustix::net::sockopt::socket_domain(socket)?, to) {
        (AddressFamily::INET, to) => Ok(to),
        (AddressFamily::INET6, SocketAddr::V4(to)) => {
            Ok(SocketAddr::from((to.ip().to_ipv6_mapped(), to.port())))
        }
        // Such as one of a pair of unix sockets.
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// The captured network of one run.
pub(crate) struct Capture {
    plan: NetworkPlan,
    user: Option<(u32, u32)>,
    credentials: Option<OwnedFd>,
    /// A connection to the user's SSH agent.
    agent: Option<OwnedFd>,
    /// Time of the last attempt to connect to the agent again.
    agent_reconnected_at: Option<Instant>,
    /// Until the helper has them.
    listeners: Vec<(NetworkListener, OwnedFd)>,
    /// Connections that the supervisor has accepted for the helper.
    pub(crate) redirects: Option<Redirects>,
    helper: Option<Helper>,
    /// True if no helper is started any more.
    was_started: bool,
    /// Names by their address inside the run.
    names: HashMap<IpAddr, String>,
    /// Time of the next look at the helper.
    look_at: Option<Instant>,
    /// True when the run is over and the helper was told so.
    is_finishing: bool,
    /// True when the helper says that it has reported everything.
    has_ended: bool,
    pub(crate) clients: Clients,
    /// Reported connections whose client is not known yet, with its port.
    unnamed: Vec<(u16, Box<Connection>)>,
    reports: NetworkReport,
    /// Reads secrets again.
    secrets: SecretReader,
}

/// Everything that happened on a run's network.
#[derive(Debug, Default)]
pub(crate) struct NetworkReport {
    pub(crate) connections: Vec<Connection>,
    pub(crate) denials: Vec<Denial>,
    pub(crate) gaps: Vec<String>,
    n_lookups: usize,
    n_denied: usize,
    n_failed: usize,
    n_made: usize,
    n_agent_refusals: usize,
    n_unlisted: u64,
}

/// The helper process. Dropping it kills it.
struct Helper {
    child: Child,
    /// Closed by the helper's death.
    socket: Option<OwnedFd>,
}

impl Capture {
    /// Takes over the listeners of a run's namespace. `user` is the user that the helper becomes.
    pub(crate) fn new(
        plan: NetworkPlan,
        listeners: Vec<(NetworkListener, OwnedFd)>,
        user: Option<(u32, u32)>,
        credentials: Option<OwnedFd>,
    ) -> Self {
        let secrets = SecretReader::new(plan.reread.clone());
        Self {
            plan,
            user,
            credentials,
            agent: None,
            agent_reconnected_at: None,
            listeners,
            redirects: None,
            helper: None,
            was_started: false,
            names: HashMap::new(),
            look_at: None,
            is_finishing: false,
            has_ended: false,
            clients: Clients::default(),
            unnamed: Vec::new(),
            reports: NetworkReport::default(),
            secrets,
        }
    }

    /// Lets the helper ask the user's SSH agent.
    pub(crate) fn with_agent(self, agent: Option<OwnedFd>) -> Self {
        Self { agent, ..self }
    }

    /// The network of a run without a namespace of its own, whose connects the supervisor performs.
    pub(crate) fn redirected(
        plan: NetworkPlan,
        user: Option<(u32, u32)>,
        credentials: Option<OwnedFd>,
    ) -> Result<Self, CallError> {
        let redirects = Some(Redirects::new()?);
        Ok(Self { redirects, ..Self::new(plan, Vec::new(), user, credentials) })
    }

    /// Returns true if the helper has ended: connections would be closed at once.
    pub(crate) fn is_lost(&self) -> bool {
        self.was_started && self.helper.as_ref().is_none_or(|helper| helper.socket.is_none())
    }

    /// The helper's process.
    pub(crate) fn helper_pid(&self) -> Option<i32> {
        self.helper.as_ref().and_then(|helper| i32::try_from(helper.child.id()).ok())
    }

    /// Returns true if the rules allow nothing.
    pub(crate) fn is_closed(&self) -> bool {
        self.plan.rules.is_empty()
    }

    /// Returns true if a connection to this port reaches the helper.
    pub(crate) fn holds(&self, port: u16) -> bool {
        self.plan.holds_tcp(port)
    }

    /// The descriptors to wait on: the listeners until one is readable, then the helper's reports.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let socket = self.helper.as_ref().and_then(|helper| helper.socket.as_ref());
        let listening = self.listeners.iter().filter(|(l, _)| l.kind != ListenerKind::Inward);
        let redirects = self.redirects.as_ref().map(|redirects| redirects.alarm.as_fd());
        listening
            .map(|(_, fd)| fd.as_fd())
            .chain(socket.map(AsFd::as_fd))
            .chain(redirects)
            .chain(self.secrets.fds())
    }

    /// Starts the helper, passes connections on to it, collects what it reports.
    pub(crate) fn step(&mut self) {
        if !self.was_started {
            self.start_helper();
        }
        if let Some(redirects) = &self.redirects {
            let socket = self.helper.as_ref().and_then(|helper| helper.socket.as_ref());
            redirects.pass_on(socket);
        }
        self.read_secrets();
        self.collect();
    }

    /// Passes on values that a command has printed.
    fn read_secrets(&mut self) {
        while let Some(reread) = self.secrets.step() {
            self.pass_on_value(reread);
        }
    }

    /// Gives the helper a value that was read again. It asks for one, and waits until it has an answer.
    fn pass_on_value(&mut self, Reread { index, value }: Reread) {
        if let Err(why) = &value {
            let name = self.secrets.name(index);
            self.reports.gap_once(format!("the secret `{name}` was not read again: {why}"));
        }
        let Some(Helper { socket: Some(socket), .. }) = &self.helper else { return };
        let index = u16::try_from(index).unwrap_or(u16::MAX).to_le_bytes();
        send_to_helper(socket, &[VALUE_PACKET, &index], value.iter().flatten().next());
    }

    /// Connects to the user's SSH agent again and gives the helper the connection; without one it answers the run with a
    /// failure.
    fn reconnect_agent(&mut self) {
        let now = Instant::now();
        let is_early = |last: Instant| now.duration_since(last) < AGENT_RECONNECT_INTERVAL;
        let agent = if self.agent_reconnected_at.is_some_and(is_early) {
            None
        } else {
            self.agent_reconnected_at = Some(now);
            ssh_agent::connect_agent(&self.plan).unwrap_or_else(|problem| {
                let why = problem.cause.as_deref().unwrap_or("it ended");
                let gap = format!("the SSH agent outside the run does not answer: {why}");
                self.reports.gap_once(gap);
                None
            })
        };
        let Some(Helper { socket: Some(socket), .. }) = &self.helper else { return };
        send_to_helper(socket, &[AGENT_PACKET], agent.as_ref());
    }

    fn start_helper(&mut self) {
        self.was_started = true;
        let listeners = std::mem::take(&mut self.listeners);
        let (credentials, agent) = (self.credentials.take(), self.agent.take());
        let extra = HelperExtras { credentials: credentials.as_ref(), agent: agent.as_ref() };
        match Helper::start(&self.plan, &listeners, self.user, extra) {
            Ok(helper) => {
                self.helper = Some(helper);
                self.look_at = Some(Instant::now() + LOOK_INTERVAL);
            }
            // The listeners close: every connect is refused from here on.
            Err(error) => self
                .reports
                .gaps
                .push(format!("no connection could be made: the network helper: {error}")),
        }
    }

    /// Time at which the helper is to be looked at.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.look_at
    }

    /// Ends a helper that was stopped from outside: its connections would hang, and now they are refused.
    pub(crate) fn look(&mut self, now: Instant) {
        if self.look_at.is_none_or(|at| now < at) {
            return;
        }
        // Commands that print nothing for too long.
        self.read_secrets();
        self.look_at = self.helper.as_ref().map(|_| now + LOOK_INTERVAL);
        if let Some(helper) = &mut self.helper
            && helper.is_stopped()
        {
            // Its socket closes, which is reported as its end.
            let _ = helper.child.kill();
        }
    }

    /// Reads every report that has arrived.
    pub(crate) fn collect(&mut self) {
        self.list_unnamed(false);
        for _ in 0..EVENTS_AT_ONCE_MAX {
            let Some(helper) = &mut self.helper else { return };
            let Some(socket) = &helper.socket else { return };
            let mut body = [0u8; EVENT_BYTES_MAX];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let received =
                ringfence_sys::receive_packet(socket, &mut body, &mut space, RecvFlags::DONTWAIT);
            match received {
                Ok((0, _)) => {
                    helper.socket = None;
                    self.reports.lost(self.is_finishing && self.has_ended);
                    return;
                }
                Ok((length, _)) => {
                    if let Ok(event) = postcard::from_bytes(&body[..length]) {
                        self.hear(event);
                    } else {
                        // Not a message of ours: what speaks there is not trusted further.
                        self.helper = None;
                        self.reports.lost(false);
                    }
                }
                Err(error) if error.errno == Errno::AGAIN => return,
                Err(_) => {
                    helper.socket = None;
                    self.reports.lost(self.is_finishing && self.has_ended);
                }
            }
        }
    }

    /// Lists a connection of this client.
    fn listed(&mut self, connection: Connection, client: Option<Client>) {
        let (pid, program) = client.map(|client| (client.pid, client.program)).unzip();
        let connection = Connection { program: program.flatten(), ..connection };
        self.reports.add(connection, pid, self.is_closed());
    }

    /// Lists connections whose client is known by now, at the end those of unknown ones too.
    fn list_unnamed(&mut self, is_end: bool) {
        for (port, connection) in std::mem::take(&mut self.unnamed) {
            match self.clients.find(port) {
                None if !is_end => self.unnamed.push((port, connection)),
                client => self.listed(*connection, client),
            }
        }
    }

    fn hear(&mut self, event: NetworkEvent) {
        match event {
            NetworkEvent::Named { host, address } => {
                if self.names.len() < NAMES_MAX {
                    self.names.insert(address, host);
                }
            }
            NetworkEvent::Connection { client, connection } => {
                let port = client.map(|client| client.port());
                let client = port.and_then(|port| self.clients.find(port));
                match (port, client) {
                    // The thread that connects is about to tell its client, which may come later than this.
                    (Some(port), None)
                        if connection.port.is_some() && self.unnamed.len() < UNNAMED_MAX =>
                    {
                        self.unnamed.push((port, connection));
                    }
                    (_, client) => self.listed(*connection, client),
                }
            }
            NetworkEvent::AgentRefused(refusal) => self.reports.refused_agent(&refusal),
            NetworkEvent::Unlisted(more) => {
                self.reports.n_unlisted = self.reports.n_unlisted.saturating_add(more);
            }
            NetworkEvent::Gap(gap) => self.reports.gap_once(gap.chars().take(500).collect()),
            NetworkEvent::AgentEnded => {
                if !self.is_finishing {
                    self.reconnect_agent();
                }
            }
            NetworkEvent::RereadSecret(index) => {
                if !self.is_finishing
                    && let Some(reread) = self.secrets.ask(usize::from(index))
                {
                    self.pass_on_value(reread);
                }
            }
            NetworkEvent::End => self.has_ended = true,
        }
    }

    /// Records a connect that was refused because no listener holds its port.
    pub(crate) fn refused(&mut self, peer: SocketAddr, client: Client) {
        // The helper tells the name of an address before it gives the address to the run.
        self.collect();
        let host = self.names.get(&peer.ip()).cloned();
        let host = host.unwrap_or_else(|| peer.ip().to_string());
        // No rule would help a program that does not use the proxy.
        let is_direct = self.plan.way == NetworkWay::Redirected;
        let decide = |asked| match self.plan.rules.decide(&asked, peer.port()) {
            NetworkVerdict::Denied(denied) => denied.grant,
            NetworkVerdict::Allowed(_) => None,
        };
        let grant = host.parse().ok().filter(|_| !is_direct).and_then(decide);
        let reason = is_direct.then(|| PROXY_ALONE.to_owned());
        let connection = Connection {
            host,
            port: Some(peer.port()),
            address: None,
            rule: None,
            verdict: ConnectionVerdict::Denied,
            reason,
            grant,
            door: ConnectionDoor::Captured,
            sent_bytes: 0,
            received_bytes: 0,
            requests: 0,
            duration_ms: 0.0,
            program: client.program,
            count: 1,
        };
        self.reports.add(connection, Some(client.pid), self.is_closed());
    }

    /// Ends the helper and returns everything that it reported.
    pub(crate) fn finish(mut self) -> NetworkReport {
        self.listeners.clear();
        self.is_finishing = true;
        if let Some(Helper { socket: Some(socket), .. }) = &self.helper {
            // It ends when it has reported its connections, which ended with the run's sockets.
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
        }
        let until = Instant::now() + LAST_REPORTS_MAX;
        while let Some(Helper { socket: Some(socket), .. }) = &self.helper {
            let is_late = Instant::now() >= until;
            if is_late || matches!(ringfence_sys::ready_by(socket, PollFlags::IN, until), Ok(false))
            {
                self.reports.gaps.push("the last connections are not listed".to_owned());
                break;
            }
            self.collect();
        }
        self.list_unnamed(true);
        drop(self.helper);
        let mut reports = self.reports;
        if reports.n_unlisted > 0 {
            let n = reports.n_unlisted;
            let refused = match &self.plan.ssh_agent {
                Some(_) => " and refused requests to the SSH agent",
                None => "",
            };
            reports.gaps.push(format!("{n} further connections{refused} are not listed"));
        }
        reports
    }
}

impl NetworkReport {
    fn gap_once(&mut self, gap: String) {
        if !self.gaps.contains(&gap) {
            self.gap(gap);
        }
    }

    fn gap(&mut self, gap: String) {
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
        }
    }

    /// Notes that the helper ended; before it has reported everything that is a gap.
    fn lost(&mut self, expected: bool) {
        if !expected {
            let gap =
                "the network helper ended too early: connections that were open are not listed";
            self.gap(gap.to_owned());
        }
    }

    fn refused_agent(&mut self, refusal: &AgentRefusal) {
        let denial = ssh_agent::agent_denial(refusal);
        let is_same =
            |d: &&mut Denial| d.subject == denial.subject && d.argument == denial.argument;
        if let Some(same) = self.denials.iter_mut().find(is_same) {
            same.count = same.count.saturating_add(1);
        } else if self.n_agent_refusals < REFUSED_MAX {
            self.n_agent_refusals += 1;
            self.denials.push(denial);
        } else if self.n_agent_refusals == REFUSED_MAX {
            self.n_agent_refusals += 1;
            self.gap("further requests that the SSH agent refused are not listed".to_owned());
        }
    }

    fn add(&mut self, mut connection: Connection, pid: Option<u32>, closed: bool) {
        // Parts of it are the run's own words.
        connection.reason = connection.reason.map(|reason| escape_unseen(&reason, |_| false));
        if connection.verdict != ConnectionVerdict::Allowed {
            let same = self.connections.iter_mut().find(|known| {
                known.verdict == connection.verdict
                    && known.host == connection.host
                    && known.port == connection.port
                    && known.reason == connection.reason
                    && known.program == connection.program
            });
            if let Some(known) = same {
                known.count = known.count.saturating_add(1);
                let subject = subject(&connection);
                let same = self.denials.iter_mut();
                for denial in same.filter(|d| d.subject == subject && d.program == known.program) {
                    denial.count = denial.count.saturating_add(1);
                }
                return;
            }
        }
        let mut is_first_of_rule = false;
        if connection.verdict == ConnectionVerdict::Allowed && self.n_made >= CONNECTIONS_MAX {
            if let Some(last) = self.last_to_the_same(&connection) {
                last.count = last.count.saturating_add(connection.count);
                last.sent_bytes = last.sent_bytes.saturating_add(connection.sent_bytes);
                last.received_bytes = last.received_bytes.saturating_add(connection.received_bytes);
                last.requests = last.requests.saturating_add(connection.requests);
                last.duration_ms += connection.duration_ms;
                return;
            }
            is_first_of_rule = !self
                .connections
                .iter()
                .any(|known| known.verdict == connection.verdict && known.rule == connection.rule);
        }
        // Each kind by itself: refused lookups cannot push connections out of the list.
        let (n, most) = match (connection.verdict, connection.door) {
            (ConnectionVerdict::Denied, ConnectionDoor::Lookup) => {
                (&mut self.n_lookups, REFUSED_MAX)
            }
            (ConnectionVerdict::Denied, _) => (&mut self.n_denied, REFUSED_MAX),
            (ConnectionVerdict::Failed, _) => (&mut self.n_failed, REFUSED_MAX),
            (ConnectionVerdict::Allowed, _) => {
                (&mut self.n_made, CONNECTIONS_MAX + OTHER_HOSTS_MAX)
            }
        };
        if *n >= most && !is_first_of_rule {
            self.n_unlisted = self.n_unlisted.saturating_add(1);
            return;
        }
        *n += 1;
        if connection.verdict == ConnectionVerdict::Denied {
            self.denials.push(denial(&connection, pid, closed));
        }
        self.connections.push(connection);
    }

    /// The last row of a connection to the same host.
    fn last_to_the_same(&mut self, connection: &Connection) -> Option<&mut Connection> {
        self.connections.iter_mut().rev().find(|known| {
            known.verdict == connection.verdict
                && known.host == connection.host
                && known.port == connection.port
                && known.rule == connection.rule
                && known.door == connection.door
        })
    }
}

fn subject(connection: &Connection) -> String {
    let host = escape_name(&connection.host);
    match connection.port {
        Some(port) => format!("connect({host}:{port})"),
        None => format!("lookup({host})"),
    }
}

/// Names the bundle that has a host among others: a tool that asks for one asks for them all.
fn bundle_of(host: &str) -> Option<&'static str> {
    let of_many = bundles().iter().filter(|bundle| bundle.hosts.len() > 1);
    of_many.filter(|bundle| bundle.hosts.contains(&host)).map(|bundle| bundle.name).next()
}

fn denial(connection: &Connection, pid: Option<u32>, closed: bool) -> Denial {
    let hint = match (&connection.grant, &connection.reason) {
        (Some(grant), _) if closed => match bundle_of(&connection.host) {
            Some(bundle) => Hint::operator(
                format!(
                    "this run has no network; `--net allow:{bundle}` reaches this host and the others its tool needs"
                ),
                format!("to allow `{bundle}`: this run has no network"),
            ),
            None => Hint::operator(
                format!("this run has no network; `--net allow:{grant}` reaches this host"),
                format!("to allow `{grant}`: this run has no network"),
            ),
        },
        (Some(grant), Some(reason)) if connection.rule.is_some() => Hint::operator(
            format!("{reason}; `--net allow:{grant}` allows it all the same"),
            format!("to allow `{grant}`: {reason}"),
        ),
        (Some(grant), _) => Hint::Network(grant.clone()),
        (None, Some(reason)) => reason.clone().into(),
        (None, None) => "no rule allows it".into(),
    };
    Denial {
        argument: connection.reason.clone(),
        pid,
        program: connection.program.clone(),
        ..Denial::new(Layer::Network, DenialRule::Network, subject(connection), hint)
    }
}

/// Sends the helper a packet with a descriptor, or without one. A helper that does not read is ended soon: see
/// [`Capture::look`].
fn send_to_helper(socket: &OwnedFd, parts: &[&[u8]], fd: Option<&OwnedFd>) {
    let packet: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let fds: Vec<BorrowedFd<'_>> = fd.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let flags = SendFlags::DONTWAIT;
    let _ = ringfence_sys::send_packet_with(socket, &packet, &fds, &mut space, flags);
}

/// Descriptors for the helper besides listeners.
#[derive(Clone, Copy)]
struct HelperExtras<'a> {
    credentials: Option<&'a OwnedFd>,
    agent: Option<&'a OwnedFd>,
}

impl Helper {
    /// Executes this program as the helper of one run. By `posix_spawn(3)`, which is safe in a process with threads.
    fn start(
        plan: &NetworkPlan,
        listeners: &[(NetworkListener, OwnedFd)],
        user: Option<(u32, u32)>,
        extra: HelperExtras<'_>,
    ) -> Result<Self, CallError> {
        let HelperExtras { credentials, agent } = extra;
        if !IS_ALLOWED.load(Ordering::Acquire) {
            let call = "execve(/proc/self/exe): `main` of this program does not begin with `ringfence_engine::init()`";
            return Err(CallError::new(call, Errno::NOEXEC));
        }
        let orders = HelperOrders {
            plan: plan.clone(),
            listeners: listeners.iter().map(|(listener, _)| *listener).collect(),
            credentials: credentials.is_some(),
            ssh_agent: agent.is_some(),
            user,
        };
        let bytes = postcard::to_allocvec(&orders)
            .map_err(|_| CallError::new("serialize(network plan)", Errno::INVAL))?;
        let memory = ringfence_sys::memory_file(HELPER_NAME, &bytes)?;
        let (ours, theirs) = ringfence_sys::packet_pair()?;
        let mut command = Command::new("/proc/self/exe");
        let helper = Self::execute(command.arg0(HELPER_NAME), ours, theirs)?;
        let first = std::iter::once(memory.as_fd()).chain(credentials.map(AsFd::as_fd));
        let first = first.chain(agent.map(AsFd::as_fd));
        let fds = first.chain(listeners.iter().map(|(_, fd)| fd.as_fd()));
        let fds: Vec<BorrowedFd<'_>> = fds.collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        if let Some(socket) = &helper.socket {
            ringfence_sys::send_packet(socket, &[IoSlice::new(b"N")], &fds, &mut space)?;
        }
        Ok(helper)
    }

    /// Executes a program with `theirs` as its stdin.
    fn execute(command: &mut Command, ours: OwnedFd, theirs: OwnedFd) -> Result<Self, CallError> {
        command
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C at the terminal is for the program, and not for its network.
            .process_group(0);
        let child =
            command.spawn().map_err(|e| CallError::new("execve(/proc/self/exe)", errno(&e)))?;
        Ok(Self { child, socket: Some(ours) })
    }

    /// Returns true if a signal stopped it.
    fn is_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let id = WaitId::Pid(Pid::from_child(&self.child));
        matches!(rustix::process::waitid(id, options), Ok(Some(status)) if status.stopped())
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Already dead in the usual case; a dead child can be waited for without waiting.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
