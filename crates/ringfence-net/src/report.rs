//! Reports to the supervisor, one packet each. Never waits: a run that makes connections faster than they are read gets
//! the last of them counted instead of listed.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::limits::Budget;
use ringfence_plan::{AGENT_PACKET, CONNECTION_PACKET, VALUE_PACKET};
use ringfence_spec::network::{Denied, Host};
use ringfence_spec::{Connection, ConnectionDoor, ConnectionVerdict, NetworkEvent};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Reports that wait for the supervisor.
const WAITING_MAX: usize = 4096;

/// Pause between two attempts to send reports that wait.
const FLUSH_INTERVAL: Duration = Duration::from_millis(20);

/// The longest text of a report, so that it fits in one packet.
const TEXT_CHARS_MAX: usize = 500;

/// Sends reports to the supervisor.
#[derive(Clone)]
pub(crate) struct Reporter(Rc<Inner>);

struct Inner {
    /// A socket of packets, which tokio has no type for; only its readiness is used.
    socket: UnixStream,
    waiting: RefCell<VecDeque<Vec<u8>>>,
    n_unlisted: Cell<u64>,
    /// Requests without a report yet.
    open: RefCell<HashMap<u64, Rc<OpenRequest>>>,
    next_id: Cell<u64>,
}

impl Reporter {
    /// Reports over this socket.
    pub(crate) fn new(socket: OwnedFd) -> std::io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        let inner = Inner {
            socket,
            waiting: RefCell::default(),
            n_unlisted: Cell::new(0),
            open: RefCell::default(),
            next_id: Cell::new(0),
        };
        Ok(Self(Rc::new(inner)))
    }

    /// Sends a report, or keeps it until the supervisor has read earlier ones.
    pub(crate) fn send(&self, event: &NetworkEvent) {
        let Ok(bytes) = postcard::to_allocvec(event) else { return };
        let mut waiting = self.0.waiting.borrow_mut();
        if waiting.is_empty() && self.try_send(&bytes) {
            return;
        }
        if waiting.len() < WAITING_MAX {
            waiting.push_back(bytes);
        } else if matches!(event, NetworkEvent::Connection { .. } | NetworkEvent::AgentRefused(_)) {
            self.0.n_unlisted.set(self.0.n_unlisted.get() + 1);
        }
    }

    /// Reports every connection that is still open: the run is over.
    pub(crate) fn end_all(&self) {
        let open: Vec<_> = self.0.open.borrow().values().cloned().collect();
        for request in open {
            request.end(self);
        }
    }

    /// Number of connections that are open.
    pub(crate) fn n_open(&self) -> usize {
        self.0.open.borrow().len()
    }

    /// Hosts and ports of the connections that are open.
    pub(crate) fn open_places(&self) -> Vec<(Host, u16)> {
        let open = self.0.open.borrow();
        open.values().filter_map(|open| Some((open.host.clone(), open.port?))).collect()
    }

    /// Sends kept reports as the supervisor reads. Never ends.
    pub(crate) async fn flush_forever(self) {
        loop {
            tokio::time::sleep(FLUSH_INTERVAL).await;
            self.flush();
        }
    }

    /// Sends what is kept. Returns false if the supervisor must read first.
    pub(crate) fn flush(&self) -> bool {
        let mut waiting = self.0.waiting.borrow_mut();
        while let Some(bytes) = waiting.front() {
            if !self.try_send(bytes) {
                return false;
            }
            waiting.pop_front();
        }
        let n_unlisted = self.0.n_unlisted.take();
        if n_unlisted > 0
            && let Ok(bytes) = postcard::to_allocvec(&NetworkEvent::Unlisted(n_unlisted))
            && !self.try_send(&bytes)
        {
            self.0.n_unlisted.set(n_unlisted);
            return false;
        }
        true
    }

    /// Tells the supervisor that everything has been sent, if it has.
    pub(crate) fn end(&self) {
        if self.flush()
            && let Ok(bytes) = postcard::to_allocvec(&NetworkEvent::End)
        {
            self.try_send(&bytes);
        }
    }

    fn try_send(&self, bytes: &[u8]) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // A supervisor that is gone reads nothing any more: then the report counts as sent.
        !matches!(rustix::net::send(&self.0.socket, bytes, flags), Err(Errno::AGAIN))
    }

    /// Waits for a packet of the supervisor. None when it has closed its end or ended the run. A connection for which this
    /// process has no descriptor left arrives without one, and is closed.
    pub(crate) async fn next_packet(&self) -> Option<SupervisorPacket> {
        while self.0.socket.readable().await.is_ok() {
            let mut body = [0u8; 4];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let received = self.0.socket.try_io(Interest::READABLE, || {
                let flags = RecvFlags::DONTWAIT;
                ringfence_sys::receive_packet(&self.0.socket, &mut body, &mut space, flags)
                    .map_err(|error| error.errno.into())
            });
            match received {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok((length, fds)) if length > 0 => {
                    let fd = fds.into_iter().next();
                    let body = &body[..length];
                    if let Some([low, high]) = body.strip_prefix(VALUE_PACKET) {
                        let index = u16::from_le_bytes([*low, *high]);
                        return Some(SupervisorPacket::Value { index, memory: fd });
                    }
                    if body == AGENT_PACKET {
                        return Some(SupervisorPacket::Agent(fd));
                    }
                    if body == CONNECTION_PACKET
                        && let Some(connection) = fd
                    {
                        return Some(SupervisorPacket::Connection(connection));
                    }
                }
                _ => return None,
            }
        }
        None
    }
}

/// A packet of the supervisor.
pub(crate) enum SupervisorPacket {
    /// A connection of the run that it has accepted.
    Connection(OwnedFd),
    /// A new connection to the user's SSH agent; `None` if it could not be made.
    Agent(Option<OwnedFd>),
    /// The value of a secret that was to be read again.
    Value {
        /// Place of the secret in the policy.
        index: u16,
        /// The value; `None` if it could not be read.
        memory: Option<OwnedFd>,
    },
}

/// One connection as it is asked for, with everything known about it until its end. Reported once: by its end, by its
/// refusal, or, if it was made, when it is dropped or the run is over.
pub(crate) struct Request {
    reporter: Reporter,
    id: u64,
    open: Rc<OpenRequest>,
    pub(crate) host: Host,
    pub(crate) port: Option<u16>,
    pub(crate) door: ConnectionDoor,
    pub(crate) client: Option<SocketAddr>,
    pub(crate) traffic: Arc<Traffic>,
}

/// The reportable part of a request.
struct OpenRequest {
    host: Host,
    port: Option<u16>,
    door: ConnectionDoor,
    client: Option<SocketAddr>,
    traffic: Arc<Traffic>,
    began: Instant,
    /// Rule and address, once it was made.
    made: RefCell<Option<(String, IpAddr)>>,
    reported: Cell<bool>,
}

/// Bytes and requests of a connection so far. Shared with streams that hyper may move between threads; here is one.
#[derive(Default)]
pub(crate) struct Traffic {
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Limits that its bytes count against.
    budgets: OnceLock<Vec<Arc<Budget>>>,
    /// The limit that ended it.
    passed: OnceLock<Arc<Budget>>,
}

impl Traffic {
    /// Counts bytes against these limits too.
    pub(crate) fn limit(&self, budgets: Vec<Arc<Budget>>) {
        let _ = self.budgets.set(budgets);
    }

    /// Counts bytes from the run.
    pub(crate) fn sent(&self, n: usize) -> std::io::Result<()> {
        self.sent_bytes.fetch_add(n as u64, Ordering::Relaxed);
        self.spend(n)
    }

    /// Counts bytes to the run.
    pub(crate) fn received(&self, n: usize) -> std::io::Result<()> {
        self.received_bytes.fetch_add(n as u64, Ordering::Relaxed);
        self.spend(n)
    }

    fn spend(&self, n: usize) -> std::io::Result<()> {
        let budgets = self.budgets.get().map_or(&[][..], Vec::as_slice);
        let mut passed = Ok(());
        for budget in budgets {
            if !budget.spend(n as u64) {
                let _ = self.passed.set(Arc::clone(budget));
                passed = Err(std::io::ErrorKind::QuotaExceeded.into());
            }
        }
        passed
    }
}

/// Reason that a connection was not made, or not continued.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) verdict: ConnectionVerdict,
    pub(crate) reason: Option<String>,
    pub(crate) rule: Option<String>,
    pub(crate) grant: Option<String>,
}

impl Refusal {
    /// No rule allows it, or a rule denies it.
    pub(crate) fn by_rules(denied: Denied) -> Self {
        let reason = denied.by.as_ref().map(|rule| format!("the rule `{rule}` refuses it"));
        Self { verdict: ConnectionVerdict::Denied, reason, rule: denied.by, grant: denied.grant }
    }

    /// A rule allows the host, and this is not what it allows.
    pub(crate) fn denied(reason: impl Into<String>) -> Self {
        Self {
            verdict: ConnectionVerdict::Denied,
            reason: Some(reason.into()),
            rule: None,
            grant: None,
        }
    }

    /// A rule allows it, and it cannot be made.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self { verdict: ConnectionVerdict::Failed, ..Self::denied(reason) }
    }

    /// One line for the program that asked.
    pub(crate) fn words(&self, host: &Host, port: u16) -> String {
        match (&self.grant, &self.reason) {
            (Some(grant), Some(reason)) => format!(
                "ringfence: no connection to {host}:{port}: {reason}; the rule `{grant}` would allow it"
            ),
            (Some(grant), None) => format!(
                "ringfence: no rule allows {host}:{port}; the rule `{grant}` would (--net allow:{grant})"
            ),
            (None, Some(reason)) => format!("ringfence: no connection to {host}:{port}: {reason}"),
            (None, None) => format!("ringfence: no rule allows {host}:{port}"),
        }
    }
}

impl Request {
    pub(crate) fn new(
        reporter: &Reporter,
        host: Host,
        port: Option<u16>,
        door: ConnectionDoor,
        client: Option<SocketAddr>,
    ) -> Self {
        let traffic: Arc<Traffic> = Arc::default();
        let open = Rc::new(OpenRequest {
            host: host.clone(),
            port,
            door,
            client,
            traffic: Arc::clone(&traffic),
            began: Instant::now(),
            made: RefCell::default(),
            reported: Cell::new(false),
        });
        let id = reporter.0.next_id.get();
        reporter.0.next_id.set(id + 1);
        reporter.0.open.borrow_mut().insert(id, Rc::clone(&open));
        Self { reporter: reporter.clone(), id, open, host, port, door, client, traffic }
    }

    /// Notes that it was made. From here on it is reported whatever happens.
    pub(crate) fn made(&self, rule: &str, address: IpAddr) {
        *self.open.made.borrow_mut() = Some((rule.to_owned(), address));
    }

    /// Reports a connection that was refused or could not be made.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        let mut connection = self.open.connection(refusal.verdict);
        if let Some((_, address)) = &*self.open.made.borrow() {
            connection.address = Some(*address);
        }
        connection.rule = refusal.rule.as_deref().map(cut);
        connection.reason = refusal.reason.as_deref().map(cut);
        connection.grant = refusal.grant.as_deref().map(cut);
        self.open.report(&self.reporter, connection);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.reporter.0.open.borrow_mut().remove(&self.id);
        self.open.end(&self.reporter);
    }
}

impl OpenRequest {
    /// Reports a connection that was made.
    fn end(&self, reporter: &Reporter) {
        let made = self.made.borrow().clone();
        if let Some((rule, address)) = made {
            let mut connection = if let Some(budget) = self.traffic.passed.get() {
                let Refusal { rule, reason, .. } = budget.refusal();
                Connection { rule, reason, ..self.connection(ConnectionVerdict::Denied) }
            } else {
                let allowed = self.connection(ConnectionVerdict::Allowed);
                Connection { rule: Some(cut(&rule)), ..allowed }
            };
            connection.address = Some(address);
            self.report(reporter, connection);
        }
    }

    fn report(&self, reporter: &Reporter, connection: Connection) {
        if !self.reported.replace(true) {
            let connection = Box::new(connection);
            reporter.send(&NetworkEvent::Connection { client: self.client, connection });
        }
    }

    fn connection(&self, verdict: ConnectionVerdict) -> Connection {
        Connection {
            host: cut(&self.host.to_string()),
            port: self.port,
            address: None,
            rule: None,
            verdict,
            reason: None,
            grant: None,
            door: self.door,
            sent_bytes: self.traffic.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.traffic.received_bytes.load(Ordering::Relaxed),
            requests: self.traffic.requests.load(Ordering::Relaxed),
            duration_ms: self.began.elapsed().as_secs_f64() * 1000.0,
            program: None,
            count: 1,
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use ringfence_spec::AgentRefusal;

    use super::*;

    #[tokio::test]
    async fn refusals_of_the_agent_beyond_the_queue_are_counted() {
        let (ours, theirs) = ringfence_sys::packet_pair().unwrap();
        let reporter = Reporter::new(ours).unwrap();
        let refusal = AgentRefusal {
            request: "sign".to_owned(),
            place: None,
            reason: "x".repeat(100),
            grant: None,
        };
        let event = NetworkEvent::AgentRefused(Box::new(refusal));
        let n_sent = 2 * WAITING_MAX + 5000;
        for _ in 0..n_sent {
            reporter.send(&event);
        }
        let (mut n_listed, mut n_unlisted) = (0, 0);
        loop {
            let is_all = reporter.flush();
            let mut body = [0u8; 1024];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            while let Ok((length, _)) =
                ringfence_sys::receive_packet(&theirs, &mut body, &mut space, RecvFlags::DONTWAIT)
            {
                match postcard::from_bytes(&body[..length]).unwrap() {
                    NetworkEvent::Unlisted(n) => n_unlisted += n,
                    _ => n_listed += 1,
                }
            }
            if is_all {
                break;
            }
        }
        assert!(n_unlisted > 0, "the queue was never full");
        assert_eq!(n_listed + n_unlisted, n_sent as u64);
    }
}
