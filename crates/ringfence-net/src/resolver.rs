//! Resolves names on the host, for names that a rule allows: the hosts file, then the name servers of resolv.conf. The
//! binary is linked statically, so the C library's resolver and its plugins are not available.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_spec::network::HostName;
use ringfence_sys::untrusted::read_trusted;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

/// Time to wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Attempts at each name server.
const ATTEMPTS: usize = 2;

/// Name servers asked: as many as the C library asks (resolv.conf(5), MAXNS).
const SERVERS_MAX: usize = 3;

/// Maximum size of resolv.conf and of the hosts file.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Maximum age of a cached answer, whatever its TTL.
const CACHE_MAX: Duration = Duration::from_mins(1);

/// Minimum age, however short the TTL: a run that connects in a loop does not flood the name server.
const CACHE_MIN: Duration = Duration::from_millis(200);

/// Names in the cache.
const CACHED_NAMES_MAX: usize = 1024;

/// Addresses of one name.
const ADDRESSES_MAX: usize = 16;

/// The longest chain of aliases that is followed.
const ALIASES_MAX: usize = 16;

/// Resolves names on the host.
pub(crate) struct Resolver {
    /// Asked instead of the host's own name servers.
    server: Option<SocketAddr>,
    cache: RefCell<HashMap<HostName, (Instant, Vec<IpAddr>)>>,
}

/// Addresses and their time to live; `None` if the name does not exist or has none of that type.
struct Records {
    addresses: Vec<IpAddr>,
    ttl: Duration,
}

impl Resolver {
    pub(crate) fn new(server: Option<SocketAddr>) -> Self {
        Self { server, cache: RefCell::default() }
    }

    /// Returns the addresses of a name, at least one. The error says why there is none.
    pub(crate) async fn addresses(&self, name: &HostName) -> Result<Vec<IpAddr>, String> {
        let now = Instant::now();
        if let Some((until, addresses)) = self.cache.borrow().get(name)
            && now < *until
        {
            return Ok(addresses.clone());
        }
        let from_file = if self.server.is_none() { hosts_file(name) } else { Vec::new() };
        if !from_file.is_empty() {
            return Ok(from_file);
        }
        let servers = match self.server {
            Some(server) => vec![server],
            None => name_servers(),
        };
        let (v4, v6) =
            tokio::join!(lookup(name, TYPE::A, &servers), lookup(name, TYPE::AAAA, &servers));
        let (addresses, ttl) = match (v4, v6) {
            (Ok(v4), Ok(v6)) => {
                let ttl = if v4.addresses.is_empty() { v6.ttl } else { v4.ttl };
                ([v4.addresses, v6.addresses].concat(), ttl)
            }
            (Ok(one), Err(_)) | (Err(_), Ok(one)) if !one.addresses.is_empty() => {
                (one.addresses, one.ttl)
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        if addresses.is_empty() {
            return Err(format!("the name {name} has no address"));
        }
        let mut cache = self.cache.borrow_mut();
        if cache.len() >= CACHED_NAMES_MAX {
            cache.clear();
        }
        cache.insert(name.clone(), (now + ttl.clamp(CACHE_MIN, CACHE_MAX), addresses.clone()));
        Ok(addresses)
    }
}

async fn lookup(name: &HostName, kind: TYPE, servers: &[SocketAddr]) -> Result<Records, String> {
    let mut error = "the host has no name server".to_owned();
    for server in servers.iter().cycle().take(servers.len() * ATTEMPTS) {
        match tokio::time::timeout(ANSWER_MAX, ask(name, kind, *server)).await {
            Ok(Ok(records)) => return Ok(records),
            Ok(Err(Failure::Final(reason))) => return Err(reason),
            Ok(Err(Failure::AskAnother(reason))) => error = reason,
            Err(_) => error = format!("the name server {server} does not answer"),
        }
    }
    Err(format!("cannot resolve {name}: {error}"))
}

enum Failure {
    /// The answer is final.
    Final(String),
    /// Another name server may answer.
    AskAnother(String),
}

async fn ask(name: &HostName, kind: TYPE, server: SocketAddr) -> Result<Records, Failure> {
    let io = |error: std::io::Error| Failure::AskAnother(format!("{server}: {error}"));
    let mut id = [0u8; 2];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| io(e.into()))?;
    let id = u16::from_ne_bytes(id);
    let query = query(id, name, kind)
        .ok_or_else(|| Failure::Final(format!("{name} cannot be asked for")))?;
    let any = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(io)?;
    // Connected: the kernel drops datagrams of any other sender.
    socket.connect(server).await.map_err(io)?;
    socket.send(&query).await.map_err(io)?;
    let mut buffer = vec![0u8; 4096];
    loop {
        let length = socket.recv(&mut buffer).await.map_err(io)?;
        match read(&buffer[..length], id, name, kind) {
            Answer::NotOurs => {}
            Answer::Truncated => break,
            Answer::Records(records) => return Ok(records),
            Answer::Failed(failure) => return Err(failure),
        }
    }
    let mut stream = TcpStream::connect(server).await.map_err(io)?;
    let length = u16::try_from(query.len()).unwrap_or(u16::MAX);
    stream.write_all(&[&length.to_be_bytes()[..], &query].concat()).await.map_err(io)?;
    let length = usize::from(stream.read_u16().await.map_err(io)?);
    buffer.resize(length, 0);
    stream.read_exact(&mut buffer).await.map_err(io)?;
    match read(&buffer, id, name, kind) {
        Answer::Records(records) => Ok(records),
        Answer::Failed(failure) => Err(failure),
        Answer::NotOurs | Answer::Truncated => {
            Err(Failure::AskAnother(format!("{server}: not an answer to this question")))
        }
    }
}

fn query(id: u16, name: &HostName, kind: TYPE) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name.as_str()).ok()?;
    let class = QCLASS::CLASS(CLASS::IN);
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), class, false));
    packet.build_bytes_vec().ok()
}

enum Answer {
    /// Of another query, or of an attacker who guesses.
    NotOurs,
    Truncated,
    Records(Records),
    Failed(Failure),
}

fn read(bytes: &[u8], id: u16, name: &HostName, kind: TYPE) -> Answer {
    let Ok(packet) = Packet::parse(bytes) else { return Answer::NotOurs };
    let same = |question: &Question<'_>| {
        is_name(&question.qname, name.as_str()) && question.qtype == QTYPE::TYPE(kind)
    };
    let asked = matches!(&packet.questions[..], [question] if same(question));
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) || !asked {
        return Answer::NotOurs;
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Answer::Truncated;
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => {
            return Answer::Failed(Failure::Final(format!("the name {name} does not exist")));
        }
        other => {
            let reason = format!("the name server answers {other:?}");
            return Answer::Failed(Failure::AskAnother(reason));
        }
    }
    // Only records on the chain of aliases that begins at the asked name.
    let mut owner = name.to_string();
    let mut ttl = u32::MAX;
    for _ in 0..ALIASES_MAX {
        let alias = packet.answers.iter().find_map(|record| match &record.rdata {
            RData::CNAME(target) if is_name(&record.name, &owner) => {
                Some((target.0.to_string(), record.ttl))
            }
            _ => None,
        });
        let Some((target, alias_ttl)) = alias else { break };
        (owner, ttl) = (target, ttl.min(alias_ttl));
    }
    let mut addresses = Vec::new();
    for record in packet.answers.iter().filter(|record| is_name(&record.name, &owner)) {
        let address = match &record.rdata {
            RData::A(a) if kind == TYPE::A => IpAddr::from(Ipv4Addr::from(a.address)),
            RData::AAAA(a) if kind == TYPE::AAAA => IpAddr::from(Ipv6Addr::from(a.address)),
            _ => continue,
        };
        if addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
            ttl = ttl.min(record.ttl);
        }
    }
    Answer::Records(Records { addresses, ttl: Duration::from_secs(ttl.into()) })
}

fn is_name(found: &Name<'_>, name: &str) -> bool {
    found.to_string().trim_end_matches('.').eq_ignore_ascii_case(name.trim_end_matches('.'))
}

/// Addresses of a name in the hosts file.
fn hosts_file(name: &HostName) -> Vec<IpAddr> {
    let text = read_trusted(Path::new("/etc/hosts"), FILE_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let addresses = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name.as_str())).then_some(address)
    });
    addresses.take(ADDRESSES_MAX).collect()
}

/// Name servers of the host. Read each time: a laptop changes its network while an agent works for hours.
fn name_servers() -> Vec<SocketAddr> {
    let text = read_trusted(Path::new("/etc/resolv.conf"), FILE_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address: IpAddr =
            (words.next()? == "nameserver").then(|| words.next())??.parse().ok()?;
        Some(SocketAddr::new(address, 53))
    });
    let servers: Vec<SocketAddr> = servers.take(SERVERS_MAX).collect();
    if servers.is_empty() { vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 53))] } else { servers }
}
