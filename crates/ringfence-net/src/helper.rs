//! The helper process of one run: receives its listeners, confines itself, then answers lookups and makes connections
//! until the supervisor closes its end. One thread.

use std::cell::RefCell;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringfence_plan::{HELPER_NAME, HelperOrders, ListenerKind, NetworkListener, NetworkPlan};
use ringfence_spec::network::{Host, HostName, NetworkLimit, NetworkVerdict};
use ringfence_spec::{ConnectionDoor, NetworkEvent};
use rustix::net::RecvFlags;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use crate::credentials::{Credentials, Scopes};
use crate::dns::{self, Decision, Names};
use crate::intercept::Interception;
use crate::limits::Budgets;
use crate::published::InwardSockets;
use crate::report::{Refusal, Reporter, Request, SupervisorPacket};
use crate::resolver::Resolver;
use crate::ssh_agent::{self, SshAgent};
use crate::{captured, fence, proxy, published};

/// Maximum size of the orders.
const ORDERS_BYTES_MAX: u64 = 4 << 20;

/// A name that no rule may allow (RFC 2606), to see that rules are enforced at all.
const RESERVED: &str = "ringfence.invalid";

/// Time that connections have to end when the run is over. Their other ends are gone.
const LAST_CONNECTIONS_MAX: Duration = Duration::from_millis(500);

/// Time that the supervisor has to read the last reports; on a busy machine it comes to it late. Less than the supervisor's
/// own patience.
const LAST_REPORTS_MAX: Duration = Duration::from_secs(2);

/// Time to accept connections that were waiting when the run ended.
const LAST_ACCEPTS: Duration = Duration::from_millis(2);

/// Pause of a listener when this process has no descriptors left.
pub(crate) const NO_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(20);

/// The longest query that is read. One question with a name and an option has some 300 bytes.
const QUERY_BYTES_MAX: usize = 1024;

/// Connections of a run at once; others wait in the backlog of their listener.
const CONNECTIONS_MAX: usize = 4096;

/// Descriptors kept for lookups, reports and dialling.
const DESCRIPTORS_RESERVED: u64 = 64;

/// Lookups by TCP on one connection.
const TCP_LOOKUPS_MAX: usize = 100;

/// Time that a client by TCP may take for its question.
const TCP_LOOKUP_PATIENCE: Duration = Duration::from_secs(10);

/// State that every connection uses.
pub(crate) struct State {
    pub(crate) plan: NetworkPlan,
    pub(crate) names: RefCell<Names>,
    pub(crate) resolver: Resolver,
    pub(crate) reporter: Reporter,
    pub(crate) secrets: Scopes,
    pub(crate) interception: Option<Interception>,
    pub(crate) inward: InwardSockets,
    pub(crate) limits: Budgets,
    pub(crate) ssh_agent: Option<SshAgent>,
    slots: Arc<Semaphore>,
}

impl State {
    /// Returns true if some rule of requests or limit is about a name.
    pub(crate) fn judges_names(&self) -> bool {
        !self.plan.requests.is_empty() || self.plan.limits.iter().any(NetworkLimit::names_hosts)
    }

    /// Returns true if a host may receive only requests that match a rule.
    pub(crate) fn judges_requests(&self, host: &Host) -> bool {
        self.plan.requests.iter().any(|rule| matches!(host, Host::Name(name) if *name == rule.host))
    }
}

/// Becomes the network helper of the supervisor that executed this program under that name, and exits with it. Returns at
/// once in every other case. First in `main`: the helper must have no threads.
pub fn become_helper_if_asked() {
    if std::env::args_os().next().is_none_or(|name| name != HELPER_NAME) {
        return;
    }
    let done = std::panic::catch_unwind(|| run().is_ok());
    ringfence_sys::exit_now(i32::from(!matches!(done, Ok(true))))
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    // Descriptors of the caller's are not for this process.
    ringfence_sys::close_range_from(3)?;
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let received = receive(&socket)?;
    // Makes sockets that the fence refuses.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    // Before the first byte of the run is read.
    fence::confine(received.orders.user)?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve(received, socket))?;
    Ok(())
}

/// The first message.
struct Received {
    orders: HelperOrders,
    credentials: Option<Credentials>,
    /// A connection to the user's SSH agent.
    agent: Option<OwnedFd>,
    listeners: Vec<OwnedFd>,
}

/// Receives the orders, the credentials, the connection to the SSH agent and the listeners.
fn receive(socket: &OwnedFd) -> Result<Received, Box<dyn std::error::Error>> {
    let mut body = [0u8; 16];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let (_, fds) =
        ringfence_sys::receive_packet(socket, &mut body, &mut space, RecvFlags::empty())?;
    let mut fds = fds.into_iter();
    let read = |memory: OwnedFd| {
        let mut bytes = Vec::new();
        let read = std::fs::File::from(memory).take(ORDERS_BYTES_MAX).read_to_end(&mut bytes);
        read.map(|_| bytes)
    };
    let orders: HelperOrders = postcard::from_bytes(&read(fds.next().ok_or("no orders")?)?)?;
    let credentials = if orders.credentials {
        Some(postcard::from_bytes(&read(fds.next().ok_or("no credentials")?)?)?)
    } else {
        None
    };
    let agent = if orders.ssh_agent { Some(fds.next().ok_or("no agent")?) } else { None };
    let listeners: Vec<OwnedFd> = fds.collect();
    if listeners.len() != orders.listeners.len() {
        return Err("listeners are missing".into());
    }
    Ok(Received { orders, credentials, agent, listeners })
}

async fn serve(received: Received, socket: OwnedFd) -> Result<(), Box<dyn std::error::Error>> {
    let Received { mut orders, credentials, agent, listeners } = received;
    let reporter = Reporter::new(socket)?;
    let resolver = Resolver::new(orders.plan.resolver);
    let (secrets, interception) = match credentials {
        Some(Credentials { authority_key, roots_pem, all }) => (
            Scopes::new(all, &orders.plan.reread)?,
            Some(Interception::new(&authority_key, &roots_pem)?),
        ),
        None => (Scopes::default(), None),
    };
    // Two descriptors for each connection.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = most.map_or(CONNECTIONS_MAX, |most| {
        usize::try_from(most.saturating_sub(DESCRIPTORS_RESERVED) / 2).unwrap_or(CONNECTIONS_MAX)
    });
    let mut inward = [Vec::new(), Vec::new()];
    let mut listening = Vec::new();
    for (listener, fd) in orders.listeners.into_iter().zip(listeners) {
        match listener.kind {
            ListenerKind::Inward => inward[usize::from(listener.ipv6)].push(fd),
            _ => listening.push((listener, fd)),
        }
    }
    let [ipv4, ipv6] = inward;
    let ssh_agent = match (orders.plan.ssh_agent.take(), agent) {
        (Some(plan), Some(connection)) => Some(SshAgent::new(plan, connection)?),
        _ => None,
    };
    let state = State {
        inward: InwardSockets::new(ipv4, ipv6),
        limits: Budgets::new(&orders.plan.limits),
        ssh_agent,
        slots: Arc::new(Semaphore::new(most.clamp(1, CONNECTIONS_MAX))),
        secrets,
        interception,
        plan: orders.plan,
        names: RefCell::new(Names::new()),
        resolver,
        reporter: reporter.clone(),
    };
    let reserved: Host = RESERVED.parse()?;
    let any = state.plan.rules.rules().any(|rule| rule == "*" || rule.starts_with("*:"));
    if !any && matches!(state.plan.rules.decide(&reserved, 443), NetworkVerdict::Allowed(_)) {
        return Err("the rules are not enforced".into());
    }
    let state = Rc::new(state);
    let tasks = tokio::task::spawn_local(reporter.clone().flush_forever());
    let mut serving = tokio::task::JoinSet::new();
    for (listener, fd) in listening {
        let state = Rc::clone(&state);
        serving.spawn_local(listen(state, listener, fd));
    }
    while let Some(packet) = reporter.next_packet().await {
        match packet {
            SupervisorPacket::Connection(connection) => serve_passed_on(&state, connection),
            SupervisorPacket::Agent(connection) => {
                if let Some(agent) = &state.ssh_agent {
                    agent.replace_connection(connection);
                }
            }
            SupervisorPacket::Value { index, memory } => state.secrets.replace_value(index, memory),
        }
    }
    let until = tokio::time::Instant::now() + LAST_CONNECTIONS_MAX;
    // The run may have made a connection, sent something and ended before this process came to accept it.
    tokio::time::sleep(LAST_ACCEPTS).await;
    // No new connections; those that are open have lost their client.
    serving.shutdown().await;
    while Rc::strong_count(&state) > 1 && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tasks.abort();
    reporter.end_all();
    let until = tokio::time::Instant::now() + LAST_REPORTS_MAX;
    while !reporter.flush() && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    reporter.end();
    Ok(())
}

/// Serves a connection to the proxy that the supervisor has accepted. With too many open it is closed at once.
fn serve_passed_on(state: &Rc<State>, connection: OwnedFd) {
    let Ok(slot) = Arc::clone(&state.slots).try_acquire_owned() else { return };
    let Ok(stream) = TcpStream::from_std(connection.into()) else { return };
    let Ok(client) = stream.peer_addr() else { return };
    let _ = stream.set_nodelay(true);
    let state = Rc::clone(state);
    tokio::task::spawn_local(async move {
        let _slot = slot;
        proxy::serve(state, stream, client).await;
    });
}

async fn listen(state: Rc<State>, listener: NetworkListener, fd: OwnedFd) {
    match listener.kind {
        ListenerKind::DnsUdp => lookups_by_udp(&state, fd).await,
        ListenerKind::SshAgent => ssh_agent::listen(state, fd).await,
        kind => {
            let Ok(socket) = TcpListener::from_std(fd.into()) else { return };
            loop {
                let Ok(slot) = Arc::clone(&state.slots).acquire_owned().await else { return };
                match socket.accept().await {
                    Ok((stream, client)) => {
                        let _ = stream.set_nodelay(true);
                        let state = Rc::clone(&state);
                        tokio::task::spawn_local(async move {
                            let _slot = slot;
                            match kind {
                                ListenerKind::DnsUdp
                                | ListenerKind::Inward
                                | ListenerKind::SshAgent => {}
                                ListenerKind::DnsTcp => {
                                    lookups_by_tcp(&state, stream, client).await;
                                }
                                ListenerKind::Captured => {
                                    captured::serve(state, stream, client, listener.port).await;
                                }
                                ListenerKind::Proxy => proxy::serve(state, stream, client).await,
                                ListenerKind::Published => {
                                    published::serve(&state, stream, client, listener.port).await;
                                }
                            }
                        });
                    }
                    // The client is gone again, or this process has no descriptors left: others wait in the backlog.
                    Err(_) => tokio::time::sleep(NO_DESCRIPTORS_PAUSE).await,
                }
            }
        }
    }
}

async fn lookups_by_udp(state: &State, fd: OwnedFd) {
    let Ok(socket) = UdpSocket::from_std(fd.into()) else { return };
    let mut query = vec![0u8; QUERY_BYTES_MAX + 1];
    while socket.readable().await.is_ok() {
        let received = socket.try_io(Interest::READABLE, || {
            Ok(ringfence_sys::receive_datagram(&socket, &mut query)?)
        });
        // An error is that of an earlier reply, such as a closed port.
        let Ok(datagram) = received else { continue };
        if datagram.length > QUERY_BYTES_MAX {
            continue;
        }
        if let Some(reply) = answer(state, &query[..datagram.length], Some(datagram.from)) {
            // A full send buffer or a closed client: it asks again.
            let _ = ringfence_sys::answer_datagram(&socket, &reply, &datagram);
        }
    }
}

async fn lookups_by_tcp(state: &State, mut stream: TcpStream, client: SocketAddr) {
    for _ in 0..TCP_LOOKUPS_MAX {
        let question = async {
            let length = usize::from(stream.read_u16().await?);
            if length > QUERY_BYTES_MAX {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            let mut query = vec![0u8; length];
            stream.read_exact(&mut query).await?;
            Ok::<_, std::io::Error>(query)
        };
        let Ok(Ok(query)) = tokio::time::timeout(TCP_LOOKUP_PATIENCE, question).await else {
            return;
        };
        let Some(reply) = answer(state, &query, Some(client)) else { return };
        let length = u16::try_from(reply.len()).unwrap_or(u16::MAX);
        if stream.write_all(&[&length.to_be_bytes()[..], &reply].concat()).await.is_err() {
            return;
        }
    }
}

/// Answers a lookup and reports what was decided.
fn answer(state: &State, query: &[u8], client: Option<SocketAddr>) -> Option<Vec<u8>> {
    let answer = dns::answer(query, &state.plan.rules, &mut state.names.borrow_mut())?;
    let refuse = |name: HostName, refusal: &Refusal| {
        let door = ConnectionDoor::Lookup;
        Request::new(&state.reporter, Host::Name(name), None, door, client).refused(refusal);
    };
    match answer.decision {
        Decision::Address(name, address) if answer.is_new => {
            // Before the reply: the supervisor names the host of a connect that it refuses.
            let address = IpAddr::from(address);
            state.reporter.send(&NetworkEvent::Named { host: name.to_string(), address });
        }
        Decision::Refused(name) => {
            let host = Host::Name(name.clone());
            if let NetworkVerdict::Denied(denied) = state.plan.rules.decide(&host, 443) {
                refuse(name, &Refusal::by_rules(denied));
            }
        }
        Decision::Full(name) => refuse(name, &Refusal::denied("too many names were looked up")),
        Decision::Address(..) | Decision::NotAName(_) | Decision::Nothing => {}
    }
    Some(answer.bytes)
}
