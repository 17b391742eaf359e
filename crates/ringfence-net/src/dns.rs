//! Answers a run's name lookups, and forwards none. A name that a rule allows gets an address of its own from a range that
//! no host uses, so that a later connection tells which name was meant; any other name does not exist.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::Ipv4Addr;

use ringfence_spec::network::{HostName, NetworkRules};
use simple_dns::rdata::{A, AAAA, OPT, PTR, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};

/// The benchmark range of RFC 2544, 198.18.0.0/15.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);

/// Addresses of the range.
const RANGE: u32 = 1 << 17;

/// Names of one run that can have an address.
const NAMES_MAX: usize = 4096;

/// Time that a run may keep an answer: it stays true, and a short time lets a denied name be asked again.
const TTL_SECONDS: u32 = 1;

/// Longest answer by UDP to a client that did not ask for more (RFC 1035, 2.3.4). Ours are shorter.
const UDP_BYTES_MAX: usize = 512;

/// Names that were asked for, by their address inside the run.
pub(crate) struct Names {
    by_address: HashMap<u32, HostName>,
    by_name: HashMap<HostName, u32>,
    /// Keyed: a run cannot find two names with the same address by trying.
    hasher: RandomState,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self { by_address: HashMap::new(), by_name: HashMap::new(), hasher: RandomState::new() }
    }

    /// The name whose address this is.
    pub(crate) fn name_of(&self, address: Ipv4Addr) -> Option<&HostName> {
        self.by_address.get(&u32::from(address))
    }

    /// Returns true for an address of the range, given out or not.
    pub(crate) fn is_in_range(address: Ipv4Addr) -> bool {
        u32::from(address).wrapping_sub(FIRST) < RANGE
    }

    /// The address of a name, given out now if it has none. `None` if too many names have one.
    fn address_of(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        if let Some(address) = self.by_name.get(name) {
            return Some((*address).into());
        }
        if self.by_name.len() >= NAMES_MAX {
            return None;
        }
        let hash = u32::try_from(self.hasher.hash_one(name) % u64::from(RANGE)).ok()?;
        // Network and broadcast addresses of the range, and the name server's own, are not given out.
        let usable = |offset: &u32| ![0, 1, RANGE - 1].contains(offset);
        let free = (0..RANGE)
            .map(|step| (hash + step) % RANGE)
            .filter(usable)
            .map(|offset| FIRST + offset)
            .find(|address| !self.by_address.contains_key(address))?;
        self.by_address.insert(free, name.clone());
        self.by_name.insert(name.clone(), free);
        Some(free.into())
    }
}

/// A reply, and what was decided.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) decision: Decision,
    /// True if a name got its address just now.
    pub(crate) is_new: bool,
}

/// Decision on a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The name has this address inside the run.
    Address(HostName, Ipv4Addr),
    /// No rule allows the name.
    Refused(HostName),
    /// The name, as it was written, cannot be that of a host.
    NotAName(String),
    /// Too many names were asked for.
    Full(HostName),
    /// Nothing to report: no such record of an allowed name, or not a question that is answered.
    Nothing,
}

/// Answers a query. `None` where no answer is due: not a query, or not a message.
pub(crate) fn answer(query: &[u8], rules: &NetworkRules, names: &mut Names) -> Option<Answer> {
    // At least a header, and not an answer: two such servers could talk to each other for ever.
    if query.len() < 12 || query[2] & 0x80 != 0 {
        return None;
    }
    let n_names = names.by_name.len();
    // One question and no records but an option: anything else takes time to read, and no resolver sends it.
    let counts = [4, 6, 8, 10].map(|at| u16::from_be_bytes([query[at], query[at + 1]]));
    let is_plain = matches!(counts, [1, 0, 0, 0 | 1]);
    let Some(packet) = is_plain.then(|| Packet::parse(query).ok()).flatten() else {
        let mut reply = Packet::new_reply(u16::from_be_bytes([query[0], query[1]]));
        *reply.rcode_mut() = RCODE::FormatError;
        let bytes = reply.build_bytes_vec().ok()?;
        return Some(Answer { bytes, decision: Decision::Nothing, is_new: false });
    };
    let (id, opcode, recursion) =
        (packet.id(), packet.opcode(), packet.has_flags(PacketFlag::RECURSION_DESIRED));
    let opt = packet.opt().map(|opt| OPT {
        opt_codes: Vec::new(),
        udp_packet_size: opt.udp_packet_size,
        version: 0,
    });
    let mut reply = Packet::new_reply(id);
    *reply.opcode_mut() = opcode;
    reply.set_flags(PacketFlag::RECURSION_AVAILABLE);
    if recursion {
        reply.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    *reply.opt_mut() = opt;
    let mut decision = Decision::Nothing;
    match (&packet.questions[..], opcode) {
        ([question], simple_dns::OPCODE::StandardQuery) => {
            let judged = judge(&question.qname.to_string(), question.qtype, rules, names);
            *reply.rcode_mut() = judged.rcode;
            decision = judged.decision;
            let record =
                |data| ResourceRecord::new(question.qname.clone(), CLASS::IN, TTL_SECONDS, data);
            reply.answers.extend(judged.records.into_iter().map(record));
            reply.questions.push(question.clone());
        }
        (_, simple_dns::OPCODE::StandardQuery) => *reply.rcode_mut() = RCODE::FormatError,
        _ => *reply.rcode_mut() = RCODE::NotImplemented,
    }
    let mut bytes = reply.build_bytes_vec_compressed().ok()?;
    if bytes.len() > UDP_BYTES_MAX {
        // The question alone cannot be that long: names end at 255 bytes.
        reply.answers.clear();
        reply.set_flags(PacketFlag::TRUNCATION);
        bytes = reply.build_bytes_vec_compressed().ok()?;
    }
    Some(Answer { bytes, decision, is_new: names.by_name.len() > n_names })
}

struct Judged {
    rcode: RCODE,
    records: Vec<RData<'static>>,
    decision: Decision,
}

fn judge(asked: &str, kind: QTYPE, rules: &NetworkRules, names: &mut Names) -> Judged {
    let no_data =
        || Judged { rcode: RCODE::NoError, records: Vec::new(), decision: Decision::Nothing };
    let missing = |decision| Judged { rcode: RCODE::NameError, records: Vec::new(), decision };
    let with = |data| Judged { records: vec![data], ..no_data() };
    let lower = asked.trim_end_matches('.').to_ascii_lowercase();
    if lower.rsplit('.').next() == Some("arpa") {
        let name = address_asked(&lower).and_then(|address| names.name_of(address));
        return match (name.map(|name| Name::new(name.as_str())), kind) {
            (Some(Ok(name)), QTYPE::TYPE(TYPE::PTR)) => with(RData::PTR(PTR(name.into_owned()))),
            (Some(_), _) => no_data(),
            (None, _) => missing(Decision::Nothing),
        };
    }
    if lower.is_empty() {
        // The root: clients probe whether a name server answers.
        return no_data();
    }
    let Ok(name) = lower.parse::<HostName>() else {
        return missing(Decision::NotAName(asked.to_owned()));
    };
    if name.is_localhost() {
        return match kind {
            QTYPE::TYPE(TYPE::A) => with(RData::A(A { address: Ipv4Addr::LOCALHOST.into() })),
            QTYPE::TYPE(TYPE::AAAA) => with(RData::AAAA(AAAA { address: 1 })),
            _ => no_data(),
        };
    }
    if !rules.knows_name(&name) {
        // Records of a service below an allowed host: there are none, and asking is no attempt to reach another host.
        let mut labels = lower.split('.').skip_while(|label| label.starts_with('_'));
        let host = labels
            .next()
            .map(|first| labels.fold(first.to_owned(), |name, label| name + "." + label));
        let host = host.and_then(|host| host.parse::<HostName>().ok());
        return match host {
            Some(host) if host != name && rules.knows_name(&host) => no_data(),
            _ => missing(Decision::Refused(name)),
        };
    }
    match kind {
        QTYPE::TYPE(TYPE::A) => match names.address_of(&name) {
            Some(address) => Judged {
                decision: Decision::Address(name, address),
                ..with(RData::A(A { address: address.into() }))
            },
            None => Judged {
                // Not REFUSED: musl's resolver ignores that, and waits.
                rcode: RCODE::ServerFailure,
                records: Vec::new(),
                decision: Decision::Full(name),
            },
        },
        // No AAAA: one address is enough to tell names apart. No HTTPS record: its keys would hide the name in the
        // TLS handshake.
        _ => no_data(),
    }
}

/// The address of a reverse lookup.
fn address_asked(lower: &str) -> Option<Ipv4Addr> {
    let mut labels = lower.strip_suffix(".in-addr.arpa")?.split('.');
    let mut octets = [0u8; 4];
    for octet in octets.iter_mut().rev() {
        *octet = labels.next()?.parse().ok()?;
    }
    labels.next().is_none().then(|| octets.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simple_dns::{QCLASS, Question};

    use super::*;

    fn rules(list: &str) -> NetworkRules {
        NetworkRules::parse(list).unwrap_or_else(|e| panic!("{e}"))
    }

    fn query(name: &str, kind: QTYPE) -> Vec<u8> {
        let mut query = Packet::new_query(0x1234);
        query.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = Name::new_unchecked(name);
        query.questions.push(Question::new(name, kind, QCLASS::CLASS(CLASS::IN), false));
        query.build_bytes_vec().unwrap()
    }

    fn ask(name: &str, kind: TYPE, list: &str, names: &mut Names) -> (RCODE, usize, Decision) {
        let answer = answer(&query(name, QTYPE::TYPE(kind)), &rules(list), names).unwrap();
        assert!(answer.bytes.len() <= UDP_BYTES_MAX);
        let reply = Packet::parse(&answer.bytes).unwrap();
        assert_eq!((reply.id(), reply.questions.len()), (0x1234, 1));
        assert!(reply.has_flags(PacketFlag::RESPONSE | PacketFlag::RECURSION_AVAILABLE));
        assert!(reply.answers.iter().all(|record| record.ttl == TTL_SECONDS));
        (reply.rcode(), reply.answers.len(), answer.decision)
    }

    #[test]
    fn lookups_are_answered_by_name_and_type() {
        use TYPE::{A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, SVCB, TXT};
        // Rules, name, type, whether the name exists, number of records, whether it is reported as refused.
        let rows = [
            ("example.com", "example.com", A, true, 1, false),
            ("example.com", "EXAMPLE.Com", A, true, 1, false),
            ("example.com:22", "example.com", A, true, 1, false),
            ("example.com", "example.com", AAAA, true, 0, false),
            ("example.com", "example.com", SVCB, true, 0, false),
            ("example.com", "example.com", TXT, true, 0, false),
            ("example.com", "example.com", MX, true, 0, false),
            ("example.com", "example.com", CNAME, true, 0, false),
            ("example.com", "example.com", SOA, true, 0, false),
            ("example.com", "www.example.com", A, false, 0, true),
            ("example.com", "www.example.com", AAAA, false, 0, true),
            ("example.com", "com", NS, false, 0, true),
            ("example.com", "secret-data.evil.example", A, false, 0, true),
            ("example.com", "secret-data.evil.example", TXT, false, 0, true),
            ("*.example.com", "a.b.example.com", A, true, 1, false),
            ("*.example.com", "example.com", A, false, 0, true),
            ("*", "any.example", A, true, 1, false),
            ("*,deny:any.example", "any.example", A, false, 0, true),
            ("*,deny:any.example:80", "any.example", A, true, 1, false),
            ("example.com", "_https._tcp.example.com", SRV, true, 0, false),
            ("example.com", "_https._tcp.example.com", A, true, 0, false),
            ("example.com", "_https._tcp.other.example", SRV, false, 0, true),
            ("example.com", "_tcp", SRV, false, 0, true),
            ("example.com", "x._tcp.example.com", SRV, false, 0, true),
            ("example.com", "localhost", A, true, 1, false),
            ("example.com", "localhost", AAAA, true, 1, false),
            ("example.com", "localhost", MX, true, 0, false),
            ("example.com", "", NS, true, 0, false),
            ("*", "1.2.3.4", A, false, 0, false),
            ("*", "127.1", A, false, 0, false),
            ("*", "1.0.18.198.in-addr.arpa", PTR, false, 0, false),
            ("*", "8.8.8.8.in-addr.arpa", PTR, false, 0, false),
            ("*", "1.0.0.0.ip6.arpa", PTR, false, 0, false),
            ("*", "home.arpa", A, false, 0, false),
        ];
        for (list, name, kind, exists, n_records, is_refused) in rows {
            let row = format!("{list} {name} {kind:?}");
            let (code, n, decision) = ask(name, kind, list, &mut Names::new());
            let expected = if exists { RCODE::NoError } else { RCODE::NameError };
            assert_eq!((code, n), (expected, n_records), "{row}");
            assert_eq!(matches!(decision, Decision::Refused(_)), is_refused, "{row}");
        }
        // HTTPS records carry the keys that would hide the server's name.
        let https = query("example.com", QTYPE::TYPE(TYPE::HTTPS));
        let answer = answer(&https, &rules("example.com"), &mut Names::new()).unwrap();
        assert_eq!(Packet::parse(&answer.bytes).unwrap().answers.len(), 0);
    }

    #[test]
    fn a_name_keeps_its_address_and_the_address_its_name() {
        let mut names = Names::new();
        let mut address = |name: &str| match ask(name, TYPE::A, "*", &mut names).2 {
            Decision::Address(_, address) => address,
            other => panic!("{other:?}"),
        };
        let first = address("example.com");
        assert_eq!(address("EXAMPLE.COM"), first);
        assert_ne!(address("example.org"), first);
        assert!(Names::is_in_range(first));
        assert_eq!(names.name_of(first).unwrap().as_str(), "example.com");
        let [a, b, c, d] = first.octets();
        let reverse = format!("{d}.{c}.{b}.{a}.in-addr.arpa");
        assert_eq!(ask(&reverse, TYPE::PTR, "*", &mut names).1, 1);
        assert_eq!(ask(&reverse, TYPE::TXT, "*", &mut names).1, 0);
        for outside in [[198, 17, 255, 255], [198, 20, 0, 0]] {
            assert!(!Names::is_in_range(outside.into()));
        }
    }

    #[test]
    fn a_full_pool_resolves_known_names_only() {
        let mut names = Names::new();
        let mut seen = std::collections::HashSet::new();
        for i in 0..NAMES_MAX {
            let name = format!("n{i}.example").parse().unwrap();
            assert!(seen.insert(names.address_of(&name).unwrap()));
        }
        let (code, _, decision) = ask("more.example", TYPE::A, "*", &mut names);
        assert_eq!(code, RCODE::ServerFailure);
        assert!(matches!(decision, Decision::Full(_)));
        assert_eq!(ask("n7.example", TYPE::A, "*", &mut names).0, RCODE::NoError);
    }

    #[test]
    fn an_answer_is_never_answered() {
        let mut reply = query("example.com", QTYPE::TYPE(TYPE::A));
        reply[2] |= 0x80;
        assert!(answer(&reply, &rules("*"), &mut Names::new()).is_none());
        assert!(answer(b"short", &rules("*"), &mut Names::new()).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_dropped(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut header = query("example.com", QTYPE::TYPE(TYPE::A));
            header.extend_from_slice(&bytes);
            let mut names = Names::new();
            for bytes in [&bytes, &header] {
                if let Some(answer) = answer(bytes, &rules("example.com"), &mut names) {
                    prop_assert!(answer.bytes.len() <= UDP_BYTES_MAX);
                }
            }
        }
    }
}
