//! The run's SSH agent: judges each request (draft-ietf-sshm-ssh-agent, OpenSSH's PROTOCOL.agent) and passes on two of them
//! to the user's own agent. A signature is given only for a login at a granted host: the client must have bound its
//! connection to the host by `session-bind@openssh.com`, whose signature shows that the host took part in that very
//! session, and the data must be a login request of that session. The request must name the host's key too
//! (`publickey-hostbound-v00@openssh.com`), unless the grant allows others: a run that has got at the private key of the
//! granted host could bind any session to it, and only the server of a login that names a key compares that with its own.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_plan::{SshAgentAccess, SshAgentPlan};
use ringfence_spec::network::{Host, host_and_port};
use ringfence_spec::{
    AgentRefusal, Connection, ConnectionDoor, ConnectionVerdict, NetworkEvent, SSH_PORT,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Semaphore, mpsc};

use crate::helper::{NO_DESCRIPTORS_PAUSE, State};
use crate::report::Reporter;
use crate::ssh_key::{Fields, certified_key, fingerprint, key_type, put_string, verifies};

/// The longest message, as in OpenSSH (authfd.c, `MAX_AGENT_REPLY_LEN`; ssh-agent.c, `AGENT_MAX_LEN`).
const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// Keys of one agent, as in OpenSSH (authfd.c, `MAX_AGENT_IDENTITIES`).
const KEYS_MAX: usize = 2048;

/// Connections to the run's agent at once; others wait.
const CONNECTIONS_MAX: usize = 64;

/// The longest session identifier: a hash of the key exchange (RFC 4253, section 7.2), whose longest is SHA-512.
const SESSION_ID_BYTES_MAX: usize = 64;

/// Ports on which no host is taken for one that speaks SSH.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Time for an answer of the user's agent: a person may have to confirm it, or to touch a token.
const AGENT_ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// Time for the supervisor to connect to the user's agent again.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two requests to the user's agent: a run may ask as often as it likes, and the agent is the user's.
const PACE: Duration = Duration::from_millis(5);

/// Reason that a request of another kind was refused.
const NOT_A_LOGIN: &str = "a run may only list keys and log in with them";

/// Reason that a login which a grant allows was not signed.
const NOT_SIGNED: &str = "the SSH agent outside did not sign: the key is for certain hosts (`ssh-add -h`), the use was not confirmed, or the agent has ended";

/// Reason that a login which does not name the host's key was not signed.
const UNBOUND: &str = "the login is not bound to the host's key: the server speaks no `publickey-hostbound-v00@openssh.com` (sshd of OpenSSH 8.9 and later does), so another server could use the signature";

const FAILURE: u8 = 5;
const SUCCESS: u8 = 6;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
const EXTENSION: u8 = 27;
const EXTENSION_RESPONSE: u8 = 29;

const SESSION_BIND: &[u8] = b"session-bind@openssh.com";
const QUERY: &[u8] = b"query";

/// `SSH_MSG_USERAUTH_REQUEST`: RFC 4252, section 6.
const USERAUTH_REQUEST: u8 = 50;

/// Flags of a request to sign: the hash for an RSA key.
const FLAG_SHA256: u32 = 2;
const FLAG_SHA512: u32 = 4;

/// The state of one connection to the run's agent.
#[derive(Debug, Default)]
struct AgentConnection {
    bound: Bound,
}

/// The host that a connection is bound to.
#[derive(Debug, Default)]
enum Bound {
    #[default]
    No,
    To {
        host_key: Vec<u8>,
        session_id: Vec<u8>,
    },
    /// To a host without a grant.
    NotGranted {
        host_key: Vec<u8>,
    },
    /// In a way that allows nothing.
    Refused(&'static str),
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Answer at once.
    Reply(Vec<u8>),
    /// Ask the user's agent for its keys, and keep those that may be used.
    List,
    /// Pass the request on.
    Sign { access: usize, fingerprint: String },
    /// Refuse and report.
    Refuse(Refused),
}

/// A refused request.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    request: String,
    reason: String,
    /// Fingerprint of the key that was to sign, if a grant could allow it.
    key: Option<String>,
    host: LoginHost,
    /// Set if that grant must allow logins that do not name the host's key.
    is_unbound: bool,
}

impl Refused {
    fn new(request: String, reason: &str) -> Self {
        let reason = reason.to_owned();
        Self { request, reason, key: None, host: LoginHost::Unknown, is_unbound: false }
    }
}

/// The host of a refused login.
#[derive(Debug, PartialEq, Eq)]
enum LoginHost {
    Unknown,
    /// A grant's.
    Known {
        host: Host,
        port: u16,
    },
    /// A host without a grant, with the fingerprint of its key.
    NotGranted(String),
}

impl AgentConnection {
    /// Judges one request.
    fn decide(&mut self, access: &[SshAgentAccess], message: &[u8]) -> Decision {
        let mut fields = Fields(message);
        let kind = fields.byte();
        match kind {
            Some(REQUEST_IDENTITIES) if fields.end().is_some() => Decision::List,
            Some(SIGN_REQUEST) => match self.sign(access, fields) {
                Ok(decision) => decision,
                Err(refused) => Decision::Refuse(refused),
            },
            Some(EXTENSION) => self.extension(access, fields),
            _ => Decision::Refuse(Refused::new(request_name(kind), NOT_A_LOGIN)),
        }
    }

    fn extension(&mut self, access: &[SshAgentAccess], mut fields: Fields<'_>) -> Decision {
        match fields.string() {
            Some(SESSION_BIND) => {
                let is_bound = self.bind(access, fields);
                Decision::Reply(vec![if is_bound { SUCCESS } else { FAILURE }])
            }
            Some(QUERY) if fields.end().is_some() => {
                let mut reply = vec![EXTENSION_RESPONSE];
                for name in [QUERY, QUERY, SESSION_BIND] {
                    put_string(&mut reply, name);
                }
                Decision::Reply(reply)
            }
            name => {
                let name = name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or("?");
                let name: String = name.chars().take(64).collect();
                Decision::Refuse(Refused::new(format!("extension {name}"), NOT_A_LOGIN))
            }
        }
    }

    /// Binds the connection to a host. A second host, a forwarded connection or a signature that does not verify leave it
    /// bound to none for good.
    fn bind(&mut self, access: &[SshAgentAccess], fields: Fields<'_>) -> bool {
        let parse = |mut fields: Fields<'_>| {
            let (host_key, id) = (fields.string()?.to_vec(), fields.string()?.to_vec());
            let (signature, is_forwarding) = (fields.string()?.to_vec(), fields.bool()?);
            fields.end()?;
            let is_valid = !id.is_empty() && id.len() <= SESSION_ID_BYTES_MAX;
            is_valid.then_some((host_key, id, signature, is_forwarding))
        };
        let Some((host_key, session_id, signature, is_forwarding)) = parse(fields) else {
            self.bound = Bound::Refused("the client sent a malformed binding to a host");
            return false;
        };
        self.bound = match std::mem::take(&mut self.bound) {
            Bound::Refused(why) => Bound::Refused(why),
            _ if is_forwarding => Bound::Refused("the agent is forwarded to another host"),
            Bound::To { host_key: known, session_id: id }
                if known == host_key && id == session_id =>
            {
                Bound::To { host_key, session_id }
            }
            Bound::To { .. } | Bound::NotGranted { .. } => {
                Bound::Refused("the connection is bound to two hosts")
            }
            Bound::No if !access.iter().any(|a| a.host_keys.contains(&host_key)) => {
                Bound::NotGranted { host_key }
            }
            Bound::No if !verifies(&host_key, &signature, &session_id) => {
                Bound::Refused("the host's signature of the session does not verify")
            }
            Bound::No => Bound::To { host_key, session_id },
        };
        matches!(self.bound, Bound::To { .. })
    }

    /// Returns true if some grant names a key; once bound, only those of that host count.
    fn may_list(&self, access: &[SshAgentAccess], key: &[u8]) -> bool {
        let fingerprint = fingerprint(key);
        let is_here = |one: &SshAgentAccess| match &self.bound {
            Bound::To { host_key, .. } => one.host_keys.contains(host_key),
            _ => true,
        };
        access.iter().any(|one| is_here(one) && is_granted(one, &fingerprint))
    }

    /// Judges a request to sign.
    fn sign(&self, access: &[SshAgentAccess], mut fields: Fields<'_>) -> Result<Decision, Refused> {
        let mut refused = Refused::new("sign".to_owned(), "");
        let mut parse = || {
            let (key, data, flags) = (fields.string()?, fields.string()?, fields.u32()?);
            fields.end().map(|()| (key, data, flags))
        };
        let Some((key, data, flags)) = parse() else {
            return Err(Refused { reason: "the request is malformed".to_owned(), ..refused });
        };
        let fingerprint = fingerprint(key);
        refused.key = Some(fingerprint.clone());
        let Some(login) = Login::parse(data) else {
            return Err(Refused {
                reason: "only logins are signed, and no files, commits or other data".to_owned(),
                key: None,
                ..refused
            });
        };
        let (host_key, session_id) = match &self.bound {
            Bound::To { host_key, session_id } => (host_key, session_id),
            Bound::No => {
                let reason = "the client has not bound its connection to a host (`session-bind@openssh.com`): ssh of OpenSSH 8.9 and later does";
                return Err(Refused { reason: reason.to_owned(), key: None, ..refused });
            }
            Bound::NotGranted { host_key } => {
                refused.host = LoginHost::NotGranted(self::fingerprint(host_key));
                return Err(Refused {
                    reason: "no grant allows logins there".to_owned(),
                    ..refused
                });
            }
            Bound::Refused(why) => {
                return Err(Refused { reason: (*why).to_owned(), key: None, ..refused });
            }
        };
        let here = |one: &&SshAgentAccess| one.host_keys.contains(host_key);
        if let Some(SshAgentAccess { host, port, .. }) = access.iter().find(here) {
            refused.host = LoginHost::Known { host: host.clone(), port: *port };
        }
        let fits = |one: &SshAgentAccess| here(&one) && is_granted(one, &fingerprint);
        if !access.iter().any(fits) {
            let reason = "no grant allows this key there".to_owned();
            return Err(Refused { reason, ..refused });
        }
        let allows = |one: &SshAgentAccess| login.host_key.is_some() || one.allows_unbound;
        let Some(granted) = access.iter().position(|one| fits(one) && allows(one)) else {
            return Err(Refused { reason: UNBOUND.to_owned(), is_unbound: true, ..refused });
        };
        let is_other_host = login.host_key.is_some_and(|named| named != host_key.as_slice());
        // ssh logs in with a certificate and asks for a signature by the plain key (sshconnect2.c, `sign_and_send_pubkey`).
        let is_same_key =
            login.key == key || certified_key(login.key).is_some_and(|plain| plain == key);
        let reason = match () {
            () if login.session_id != session_id.as_slice() => "the login is for another session",
            () if is_other_host => "the login is for another host",
            () if !is_same_key => "the login is for another key",
            () if !is_algorithm_of(login.algorithm, login.key, flags) => {
                "the login is by another algorithm than the signature, or by SHA-1"
            }
            () => return Ok(Decision::Sign { access: granted, fingerprint }),
        };
        Err(Refused { reason: reason.to_owned(), key: None, ..refused })
    }
}

/// Returns true if a grant names this key, or every key.
fn is_granted(access: &SshAgentAccess, fingerprint: &str) -> bool {
    access.key.as_ref().is_none_or(|key| key == fingerprint)
}

/// The data that a client signs to log in with a key: RFC 4252, section 7, and OpenSSH's PROTOCOL, section 3.1.
struct Login<'a> {
    session_id: &'a [u8],
    algorithm: &'a [u8],
    key: &'a [u8],
    /// Of `publickey-hostbound-v00@openssh.com`.
    host_key: Option<&'a [u8]>,
}

impl<'a> Login<'a> {
    fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let session_id = fields.string()?;
        if fields.byte()? != USERAUTH_REQUEST {
            return None;
        }
        let _user = fields.string()?;
        if fields.string()? != b"ssh-connection" {
            return None;
        }
        let is_hostbound = match fields.string()? {
            b"publickey" => false,
            b"publickey-hostbound-v00@openssh.com" => true,
            _ => return None,
        };
        if !fields.bool()? {
            return None;
        }
        let (algorithm, key) = (fields.string()?, fields.string()?);
        let host_key = if is_hostbound { Some(fields.string()?) } else { None };
        fields.end()?;
        Some(Self { session_id, algorithm, key, host_key })
    }
}

/// Returns true if a key and these flags make signatures of this algorithm, and not by SHA-1.
fn is_algorithm_of(algorithm: &[u8], key: &[u8], flags: u32) -> bool {
    let rsa = match key_type(key) {
        Some("ssh-rsa") => ["rsa-sha2-256", "rsa-sha2-512"],
        Some("ssh-rsa-cert-v01@openssh.com") => {
            ["rsa-sha2-256-cert-v01@openssh.com", "rsa-sha2-512-cert-v01@openssh.com"]
        }
        Some(own) => {
            return algorithm == own.as_bytes() && flags & !(FLAG_SHA256 | FLAG_SHA512) == 0;
        }
        None => return false,
    };
    let name = match flags {
        FLAG_SHA256 => rsa[0],
        FLAG_SHA512 => rsa[1],
        _ => return false,
    };
    algorithm == name.as_bytes()
}

/// The name of a request that is never passed on.
fn request_name(kind: Option<u8>) -> String {
    let name = match kind {
        Some(REQUEST_IDENTITIES) => "list",
        Some(17) => "add_identity",
        Some(18) => "remove_identity",
        // 9 is that of SSH 1, which ssh-add(1) still sends too.
        Some(9 | 19) => "remove_all_identities",
        Some(20) => "add_smartcard_key",
        Some(21) => "remove_smartcard_key",
        Some(22) => "lock",
        Some(23) => "unlock",
        Some(25) => "add_id_constrained",
        Some(26) => "add_smartcard_key_constrained",
        Some(kind) => return format!("message {kind}"),
        None => "empty message",
    };
    name.to_owned()
}

/// The user's agent, and the grants.
pub(crate) struct SshAgent {
    access: Vec<SshAgentAccess>,
    /// One connection, one request at a time.
    outside: Mutex<Outside>,
    /// New connections that the supervisor has made.
    replacements: mpsc::Sender<Option<OwnedFd>>,
    answer_timeout: Duration,
}

/// The connection to the user's agent.
struct Outside {
    /// `None` once it has failed: an answer could belong to an earlier request.
    stream: Option<UnixStream>,
    /// End of the last request.
    asked: Option<Instant>,
    replacements: mpsc::Receiver<Option<OwnedFd>>,
}

impl Outside {
    /// Returns the connection, a new one if the last has failed.
    async fn stream(&mut self, reporter: &Reporter) -> Option<&mut UnixStream> {
        if self.stream.is_none() {
            // An answer to an earlier question, which came too late.
            while self.replacements.try_recv().is_ok() {}
            reporter.send(&NetworkEvent::AgentEnded);
            let answer = tokio::time::timeout(RECONNECT_TIMEOUT, self.replacements.recv()).await;
            self.stream = UnixStream::from_std(answer.ok()???.into()).ok();
        }
        self.stream.as_mut()
    }
}

impl SshAgent {
    pub(crate) fn new(plan: SshAgentPlan, connection: OwnedFd) -> std::io::Result<Self> {
        let stream = Some(UnixStream::from_std(connection.into())?);
        let (sender, replacements) = mpsc::channel(1);
        let outside = Mutex::new(Outside { stream, asked: None, replacements });
        Ok(Self {
            access: plan.access,
            outside,
            replacements: sender,
            answer_timeout: AGENT_ANSWER_TIMEOUT,
        })
    }

    /// Uses a new connection to the user's agent from now on, if a request waits for one.
    pub(crate) fn replace_connection(&self, connection: Option<OwnedFd>) {
        let _ = self.replacements.try_send(connection);
    }

    /// Passes a request on and returns the answer. If the agent has closed its connection, asks once more by a new one: it
    /// may have been started again.
    async fn ask(&self, reporter: &Reporter, request: &[u8]) -> Option<Vec<u8>> {
        let mut outside = self.outside.lock().await;
        if let Some(asked) = outside.asked {
            tokio::time::sleep_until((asked + PACE).into()).await;
        }
        let answer = self.ask_now(&mut outside, reporter, request).await;
        outside.asked = Some(Instant::now());
        answer
    }

    async fn ask_now(
        &self,
        outside: &mut Outside,
        reporter: &Reporter,
        request: &[u8],
    ) -> Option<Vec<u8>> {
        for _ in 0..2 {
            let stream = outside.stream(reporter).await?;
            let answer = async {
                write_message(stream, request).await?;
                read_message(stream).await
            };
            match tokio::time::timeout(self.answer_timeout, answer).await {
                Ok(Ok(Some(answer))) => return Some(answer),
                Ok(_) => outside.stream = None,
                Err(_) => {
                    outside.stream = None;
                    let gap = "the SSH agent outside the run did not answer within 2 minutes";
                    reporter.send(&NetworkEvent::Gap(gap.to_owned()));
                    return None;
                }
            }
        }
        None
    }

    /// The keys of the user's agent that may be used.
    async fn list(&self, state: &State, connection: &AgentConnection) -> Vec<u8> {
        let answer = self.ask(&state.reporter, &[REQUEST_IDENTITIES]).await;
        let all = answer.as_deref().and_then(identities);
        let Some(all) = all else { return vec![FAILURE] };
        let may = all.into_iter().filter(|(key, _)| connection.may_list(&self.access, key));
        let may: Vec<_> = may.collect();
        let mut reply = vec![IDENTITIES_ANSWER];
        reply.extend(u32::try_from(may.len()).unwrap_or(0).to_be_bytes());
        for (key, comment) in may {
            put_string(&mut reply, key);
            put_string(&mut reply, comment);
        }
        reply
    }

    /// A signature of the user's agent, and the row that tells of it.
    async fn sign(
        &self,
        state: &State,
        request: &[u8],
        access: &SshAgentAccess,
        fingerprint: &str,
    ) -> Vec<u8> {
        let began = Instant::now();
        let answer = self.ask(&state.reporter, request).await.filter(|answer| is_signature(answer));
        let is_signed = answer.is_some();
        let connection = Box::new(Connection {
            host: access.host.to_string(),
            port: Some(access.port),
            address: None,
            rule: Some(format!(
                "ssh_agent:{fingerprint}@{}",
                host_and_port(&access.host, access.port, SSH_PORT)
            )),
            verdict: if is_signed { ConnectionVerdict::Allowed } else { ConnectionVerdict::Failed },
            reason: (!is_signed).then(|| NOT_SIGNED.to_owned()),
            grant: None,
            door: ConnectionDoor::SshAgent,
            sent_bytes: 0,
            received_bytes: 0,
            requests: 1,
            duration_ms: began.elapsed().as_secs_f64() * 1000.0,
            program: None,
            count: 1,
        });
        state.reporter.send(&NetworkEvent::Connection { client: None, connection });
        answer.unwrap_or_else(|| vec![FAILURE])
    }
}

/// Keys and comments of an answer.
fn identities(answer: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut fields = Fields(answer);
    if fields.byte()? != IDENTITIES_ANSWER {
        return None;
    }
    let n = usize::try_from(fields.u32()?).ok().filter(|n| *n <= KEYS_MAX)?;
    let mut all = Vec::new();
    for _ in 0..n {
        all.push((fields.string()?, fields.string()?));
    }
    fields.end().map(|()| all)
}

fn is_signature(answer: &[u8]) -> bool {
    let mut fields = Fields(answer);
    fields.byte() == Some(SIGN_RESPONSE) && fields.string().is_some() && fields.end().is_some()
}

/// Accepts connections of the run.
pub(crate) async fn listen(state: Rc<State>, fd: OwnedFd) {
    let Ok(listener) = UnixListener::from_std(fd.into()) else { return };
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let state = Rc::clone(&state);
                tokio::task::spawn_local(async move {
                    serve(&state, stream).await;
                    drop(slot);
                });
            }
            Err(_) => tokio::time::sleep(NO_DESCRIPTORS_PAUSE).await,
        }
    }
}

/// Serves one connection to its end. A message that is too long ends it.
async fn serve(state: &State, mut stream: UnixStream) {
    let Some(agent) = &state.ssh_agent else { return };
    let mut connection = AgentConnection::default();
    while let Ok(Some(message)) = read_message(&mut stream).await {
        let reply = match connection.decide(&agent.access, &message) {
            Decision::Reply(reply) => reply,
            Decision::List => agent.list(state, &connection).await,
            Decision::Sign { access, fingerprint } => {
                agent.sign(state, &message, &agent.access[access], &fingerprint).await
            }
            Decision::Refuse(refused) => {
                report(state, agent, refused);
                vec![FAILURE]
            }
        };
        if write_message(&mut stream, &reply).await.is_err() {
            return;
        }
    }
}

/// Reports a refusal. A host without a grant is named if a connection to such a host is open.
fn report(state: &State, agent: &SshAgent, refused: Refused) {
    let Refused { request, mut reason, key, host, is_unbound } = refused;
    let at = match host {
        LoginHost::Unknown => None,
        LoginHost::Known { host, port } => Some(host_and_port(&host, port, SSH_PORT)),
        LoginHost::NotGranted(host_key) => {
            let (known, others) = open_places(state, agent);
            let [one] = &others[..] else {
                reason = if known {
                    format!(
                        "the host's key {host_key} is not the one that it was known by when the run began"
                    )
                } else {
                    format!("no grant allows logins at the host with the key {host_key}")
                };
                let refusal = AgentRefusal { request, place: None, reason, grant: None };
                state.reporter.send(&NetworkEvent::AgentRefused(Box::new(refusal)));
                return;
            };
            Some(one.clone())
        }
    };
    let mark = if is_unbound { "!" } else { "" };
    let grant = key.zip(at.as_ref()).map(|(key, at)| format!("{key}@{at}{mark}"));
    let refusal = AgentRefusal { request, place: at, reason, grant };
    state.reporter.send(&NetworkEvent::AgentRefused(Box::new(refusal)));
}

/// Returns whether a connection to a granted host is open, and the other hosts that ssh may be connected to.
fn open_places(state: &State, agent: &SshAgent) -> (bool, Vec<String>) {
    let mut known = false;
    let mut others = Vec::new();
    for (host, port) in state.reporter.open_places() {
        if agent.access.iter().any(|a| a.host == host && a.port == port) {
            known = true;
        } else if !WEB_PORTS.contains(&port) {
            others.push(host_and_port(&host, port, SSH_PORT));
        }
    }
    others.sort();
    others.dedup();
    (known, others)
}

/// Reads one message; `None` at the end of the connection. Memory grows with what has arrived, and not with the length
/// that is announced.
async fn read_message(stream: &mut UnixStream) -> std::io::Result<Option<Vec<u8>>> {
    let length = match stream.read_u32().await {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        length => length?,
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > MESSAGE_BYTES_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut message = Vec::new();
    stream.take(length as u64).read_to_end(&mut message).await?;
    if message.len() < length {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(message))
}

async fn write_message(stream: &mut UnixStream, message: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| std::io::ErrorKind::InvalidData)?;
    stream.write_all(&[&length.to_be_bytes()[..], message].concat()).await
}

#[cfg(test)]
#[path = "ssh_agent_tests.rs"]
mod tests;
