//! Requests to the agent of a run: taken, refused, malformed.

use super::*;
use crate::ssh_key::tests::{Signer, fields};

/// The host, another one, and two keys of the user.
struct Scene {
    host: Signer,
    other_host: Signer,
    key: Vec<u8>,
    other_key: Vec<u8>,
}

const HOSTBOUND: &[u8] = b"publickey-hostbound-v00@openssh.com";

const ID: &[u8] = b"a session id of thirty-two bytes";

impl Scene {
    fn new() -> Self {
        Self {
            host: Signer::new(1),
            other_host: Signer::new(2),
            key: Signer::new(3).key,
            other_key: Signer::new(4).key,
        }
    }

    /// One key at one host.
    fn access(&self) -> Vec<SshAgentAccess> {
        vec![SshAgentAccess {
            host: "git.test".parse().unwrap(),
            port: SSH_PORT,
            key: Some(fingerprint(&self.key)),
            host_keys: vec![self.host.key.clone()],
            allows_unbound: false,
        }]
    }

    /// The same, and logins need not name the host's key.
    fn unbound_access(&self) -> Vec<SshAgentAccess> {
        vec![SshAgentAccess { allows_unbound: true, ..self.access().remove(0) }]
    }

    fn bind(&self) -> Vec<u8> {
        bind(&self.host.key, ID, &self.host.sign(ID), &[0])
    }

    /// A connection that is bound to the host.
    fn bound(&self) -> AgentConnection {
        let mut connection = AgentConnection::default();
        assert_eq!(connection.decide(&self.access(), &self.bind()), Decision::Reply(vec![SUCCESS]));
        connection
    }

    /// The data of a usual login.
    fn login(&self) -> Vec<u8> {
        self.login_by(b"ssh-ed25519", &self.key)
    }

    /// A login at the host by this key.
    fn login_by(&self, algorithm: &[u8], key: &[u8]) -> Vec<u8> {
        login(ID, HOSTBOUND, algorithm, key, Some(&self.host.key))
    }
}

fn bind(key: &[u8], id: &[u8], signature: &[u8], is_forwarding: &[u8]) -> Vec<u8> {
    let rest = fields(&[SESSION_BIND, key, id, signature]);
    [&[EXTENSION], &rest[..], is_forwarding].concat()
}

fn login(id: &[u8], method: &[u8], algorithm: &[u8], key: &[u8], host: Option<&[u8]>) -> Vec<u8> {
    let mut data = fields(&[id]);
    data.push(USERAUTH_REQUEST);
    data.extend(fields(&[b"git", b"ssh-connection", method]));
    data.push(1);
    data.extend(fields(&[algorithm, key]));
    data.extend(host.map(|host| fields(&[host])).unwrap_or_default());
    data
}

fn sign(key: &[u8], data: &[u8], flags: u32) -> Vec<u8> {
    [&[SIGN_REQUEST], &fields(&[key, data])[..], &flags.to_be_bytes()].concat()
}

/// The reason of a refusal; empty if it was none.
fn reason(decision: Decision) -> String {
    match decision {
        Decision::Refuse(refused) => refused.reason,
        _ => String::new(),
    }
}

#[test]
fn a_login_at_the_bound_host_is_signed() {
    let scene = Scene::new();
    let access = scene.access();
    let signed = Decision::Sign { access: 0, fingerprint: fingerprint(&scene.key) };
    let request = sign(&scene.key, &scene.login(), 0);
    let mut connection = scene.bound();
    assert_eq!(connection.decide(&access, &request), signed);
    // The same binding again changes nothing.
    connection.decide(&access, &scene.bind());
    assert_eq!(connection.decide(&access, &request), signed);
    let every = vec![SshAgentAccess { key: None, ..access[0].clone() }];
    let data = scene.login_by(b"ssh-ed25519", &scene.other_key);
    let decision = scene.bound().decide(&every, &sign(&scene.other_key, &data, 0));
    assert!(matches!(decision, Decision::Sign { access: 0, .. }), "{decision:?}");
}

/// The private key of the granted host may be known to a run that logs in there: it can bind another host's session to
/// it. That host takes a login without a host key, and refuses one that names another key than its own.
#[test]
fn a_login_without_the_hosts_key_needs_a_grant_that_allows_it() {
    let scene = Scene::new();
    let unbound = login(ID, b"publickey", b"ssh-ed25519", &scene.key, None);
    let request = sign(&scene.key, &unbound, 0);
    let Decision::Refuse(refused) = scene.bound().decide(&scene.access(), &request) else {
        panic!("signed")
    };
    assert!(refused.is_unbound && refused.reason.contains("not bound to the host's key"));
    assert_eq!(refused.key, Some(fingerprint(&scene.key)));
    let allowed = scene.unbound_access();
    for (access, expected) in
        [(allowed.clone(), 0), ([scene.access(), allowed.clone()].concat(), 1)]
    {
        let signed = Decision::Sign { access: expected, fingerprint: fingerprint(&scene.key) };
        assert_eq!(scene.bound().decide(&access, &request), signed);
    }
    // It is still for one session, one key and one algorithm.
    for (data, expected) in [
        (login(b"x", b"publickey", b"ssh-ed25519", &scene.key, None), "another session"),
        (login(ID, b"publickey", b"ssh-ed25519", &scene.other_key, None), "another key"),
        (login(ID, b"publickey", b"ssh-rsa", &scene.key, None), "algorithm"),
    ] {
        let why = reason(scene.bound().decide(&allowed, &sign(&scene.key, &data, 0)));
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

/// A certificate for an Ed25519 key, by no authority in particular.
fn certificate_of(key: &[u8]) -> Vec<u8> {
    let mut parts = Fields(key);
    let (_kind, point) = (parts.string().unwrap(), parts.string().unwrap());
    fields(&[b"ssh-ed25519-cert-v01@openssh.com", b"nonce", point, b"the rest"])
}

#[test]
fn a_login_with_a_certificate_is_signed_by_its_key_alone() {
    let scene = Scene::new();
    let kind: &[u8] = b"ssh-ed25519-cert-v01@openssh.com";
    let certificate = certificate_of(&scene.key);
    let data = scene.login_by(kind, &certificate);
    for key in [&scene.key, &certificate] {
        let decision = scene.bound().decide(&scene.access(), &sign(key, &data, 0));
        assert!(matches!(decision, Decision::Sign { access: 0, .. }), "{decision:?}");
    }
    let other = certificate_of(&scene.other_key);
    for (algorithm, named, key, expected) in [
        (kind, &other, &scene.key, "another key"),
        (kind, &certificate, &scene.other_key, "no grant allows this key"),
        (kind, &other, &scene.other_key, "no grant allows this key"),
        (kind, &scene.key, &certificate, "another key"),
        (b"ssh-ed25519", &certificate, &scene.key, "another algorithm"),
        (kind, &scene.key, &scene.key, "another algorithm"),
    ] {
        let data = scene.login_by(algorithm, named);
        let why = reason(scene.bound().decide(&scene.access(), &sign(key, &data, 0)));
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

/// Name, data, key, flags, and a part of the reason.
type SignRow<'a> = (&'a str, Vec<u8>, &'a [u8], u32, &'a str);

#[test]
fn only_a_login_at_that_host_by_that_key_is_signed() {
    let scene = Scene::new();
    let ed25519: &[u8] = b"ssh-ed25519";
    let (key, other) = (&scene.key[..], &scene.other_key[..]);
    let mut other_message = scene.login();
    other_message[4 + ID.len()] = 51;
    let mut without_signature = scene.login();
    let at = 4 + ID.len() + 1 + (4 + 3) + (4 + 14) + (4 + HOSTBOUND.len());
    assert_eq!(without_signature[at], 1);
    without_signature[at] = 0;
    let mut other_service = scene.login();
    other_service[4 + ID.len() + 1 + (4 + 3) + 4] = b'x';
    let sshsig = [b"SSHSIG", &fields(&[b"git", b"", b"sha512", &[0; 64]])[..]].concat();
    let no_login = "only logins are signed";
    let rows: Vec<SignRow<'_>> = vec![
        ("a file", sshsig, key, 0, no_login),
        ("nothing", Vec::new(), key, 0, no_login),
        ("only an id", fields(&[ID]), key, 0, no_login),
        ("a byte after it", [&scene.login()[..], b"x"].concat(), key, 0, no_login),
        ("a byte less", scene.login()[..scene.login().len() - 1].to_vec(), key, 0, no_login),
        ("another message", other_message, key, 0, no_login),
        ("a question without a signature", without_signature, key, 0, no_login),
        ("another service", other_service, key, 0, no_login),
        ("another method", login(ID, b"hostbased", ed25519, key, None), key, 0, no_login),
        (
            "a host key too many",
            login(ID, b"publickey", ed25519, key, Some(b"x")),
            key,
            0,
            no_login,
        ),
        ("a host key too few", login(ID, HOSTBOUND, ed25519, key, None), key, 0, no_login),
        (
            "another session",
            login(b"x", HOSTBOUND, ed25519, key, Some(&scene.host.key)),
            key,
            0,
            "another session",
        ),
        (
            "another host's key",
            login(ID, HOSTBOUND, ed25519, key, Some(&scene.other_host.key)),
            key,
            0,
            "another host",
        ),
        ("another key inside", scene.login_by(ed25519, other), key, 0, "another key"),
        ("another key", scene.login_by(ed25519, other), other, 0, "no grant allows"),
        ("another algorithm", scene.login_by(b"ssh-rsa", key), key, 0, "algorithm"),
        ("unknown flags", scene.login(), key, 8, "algorithm"),
    ];
    for (name, data, key, flags, expected) in rows {
        let decision = scene.bound().decide(&scene.access(), &sign(key, &data, flags));
        assert!(reason(decision).contains(expected), "{name}");
    }
    // The key of another grant is not for this host.
    let elsewhere = SshAgentAccess {
        host: "other.test".parse().unwrap(),
        key: Some(fingerprint(other)),
        host_keys: vec![scene.other_host.key.clone()],
        ..scene.access()[0].clone()
    };
    let both = [scene.access(), vec![elsewhere]].concat();
    let data = scene.login_by(ed25519, other);
    let Decision::Refuse(refused) = scene.bound().decide(&both, &sign(other, &data, 0)) else {
        panic!("signed")
    };
    assert_eq!(
        refused.host,
        LoginHost::Known { host: "git.test".parse().unwrap(), port: SSH_PORT }
    );
    assert_eq!(refused.key, Some(fingerprint(other)));
    let connection = scene.bound();
    assert!(connection.may_list(&both, key) && !connection.may_list(&both, other));
    assert!(AgentConnection::default().may_list(&both, other));
    assert!(!AgentConnection::default().may_list(&both, &scene.host.key));
}

#[test]
fn rsa_keys_sign_by_sha_2() {
    let plain = fields(&[b"ssh-rsa", &[3], &[1; 256]]);
    let certificate = fields(&[b"ssh-rsa-cert-v01@openssh.com", &[1; 256]]);
    for (algorithm, key, flags, is_allowed) in [
        ("rsa-sha2-256", &plain, FLAG_SHA256, true),
        ("rsa-sha2-512", &plain, FLAG_SHA512, true),
        ("rsa-sha2-512", &plain, FLAG_SHA256, false),
        ("rsa-sha2-256", &plain, FLAG_SHA256 | FLAG_SHA512, false),
        ("ssh-rsa", &plain, 0, false),
        ("rsa-sha2-256", &plain, 0, false),
        ("rsa-sha2-256-cert-v01@openssh.com", &certificate, FLAG_SHA256, true),
        ("rsa-sha2-256", &certificate, FLAG_SHA256, false),
        ("ssh-rsa-cert-v01@openssh.com", &certificate, 0, false),
    ] {
        let is = is_algorithm_of(algorithm.as_bytes(), key, flags);
        assert_eq!(is, is_allowed, "{algorithm} {flags}");
    }
    assert!(!is_algorithm_of(b"", b"", 0));
}

#[test]
fn a_binding_that_proves_nothing_allows_nothing() {
    let scene = Scene::new();
    let signature = scene.host.sign(ID);
    let host = &scene.host.key;
    let long = [1; SESSION_ID_BYTES_MAX + 1];
    let malformed = "malformed";
    let rows: Vec<(&str, Vec<Vec<u8>>, &str)> = vec![
        ("none", vec![], "has not bound its connection"),
        ("forwarded", vec![bind(host, ID, &signature, &[1])], "forwarded"),
        ("another id signed", vec![bind(host, b"x", &signature, &[0])], "does not verify"),
        ("another host signed", vec![bind(host, ID, &scene.other_host.sign(ID), &[0])], "verify"),
        ("no signature", vec![bind(host, ID, b"", &[0])], "does not verify"),
        (
            "another host",
            vec![bind(&scene.other_host.key, ID, &scene.other_host.sign(ID), &[0])],
            "no grant allows logins there",
        ),
        (
            "bound twice",
            vec![scene.bind(), bind(host, b"y", &scene.host.sign(b"y"), &[0])],
            "two hosts",
        ),
        (
            "first elsewhere",
            vec![bind(&scene.other_host.key, ID, &scene.other_host.sign(ID), &[0]), scene.bind()],
            "two hosts",
        ),
        ("then forwarded", vec![scene.bind(), bind(host, ID, &signature, &[1])], "forwarded"),
        ("refused once", vec![bind(host, ID, &signature, &[1]), scene.bind()], "forwarded"),
        ("bytes after it", vec![bind(host, ID, &signature, &[0, 0])], malformed),
        ("cut off", vec![bind(host, ID, &signature, &[])], malformed),
        ("no truth value", vec![bind(host, ID, &signature, &[2])], malformed),
        ("an empty id", vec![bind(host, b"", &scene.host.sign(b""), &[0])], malformed),
        ("a long id", vec![bind(host, &long, &scene.host.sign(&long), &[0])], malformed),
    ];
    for (name, messages, expected) in rows {
        let mut connection = AgentConnection::default();
        for message in &messages {
            assert!(
                matches!(connection.decide(&scene.access(), message), Decision::Reply(_)),
                "{name}"
            );
        }
        let request = sign(&scene.key, &scene.login(), 0);
        let why = reason(connection.decide(&scene.access(), &request));
        assert!(why.contains(expected), "{name}: {why}");
    }
}

#[test]
fn other_requests_are_refused_by_name() {
    let scene = Scene::new();
    for (message, name) in [
        (vec![], "empty message"),
        (vec![17], "add_identity"),
        (vec![18], "remove_identity"),
        (vec![19], "remove_all_identities"),
        (vec![22, 0, 0, 0, 0], "lock"),
        (vec![25], "add_id_constrained"),
        (vec![200], "message 200"),
        (vec![REQUEST_IDENTITIES, 0], "list"),
        (vec![EXTENSION], "extension ?"),
        ([&[EXTENSION], &fields(&[b"restrict-x@y"])[..]].concat(), "extension restrict-x@y"),
        ([&[EXTENSION], &fields(&[&[0xff; 3]])[..]].concat(), "extension ?"),
        ([&[EXTENSION], &fields(&[QUERY])[..], &[0]].concat(), "extension query"),
        (vec![SIGN_REQUEST], "sign"),
    ] {
        match scene.bound().decide(&scene.access(), &message) {
            Decision::Refuse(refused) => assert_eq!(refused.request, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let mut connection = AgentConnection::default();
    assert_eq!(connection.decide(&[], &[REQUEST_IDENTITIES]), Decision::List);
    let query = [&[EXTENSION], &fields(&[QUERY])[..]].concat();
    let names = fields(&[QUERY, QUERY, SESSION_BIND]);
    let reply = Decision::Reply([&[EXTENSION_RESPONSE], &names[..]].concat());
    assert_eq!(connection.decide(&[], &query), reply);
}

#[test]
fn answers_of_an_agent_are_read_strictly() {
    let two = [&[IDENTITIES_ANSWER, 0, 0, 0, 2], &fields(&[b"k", b"c", b"l", b""])[..]].concat();
    assert_eq!(identities(&two).unwrap(), [(&b"k"[..], &b"c"[..]), (&b"l"[..], &b""[..])]);
    for answer in [
        vec![],
        vec![FAILURE],
        vec![IDENTITIES_ANSWER, 0, 0, 0, 1],
        vec![IDENTITIES_ANSWER, 0xff, 0xff, 0xff, 0xff],
        [&two[..], &[0]].concat(),
        two[..two.len() - 1].to_vec(),
    ] {
        assert_eq!(identities(&answer), None, "{answer:?}");
    }
    assert!(is_signature(&[&[SIGN_RESPONSE], &fields(&[b"s"])[..]].concat()));
    for answer in [vec![], vec![FAILURE], vec![SIGN_RESPONSE], vec![SIGN_RESPONSE, 0, 0, 0, 1]] {
        assert!(!is_signature(&answer), "{answer:?}");
    }
}

/// Reads the first message of some bytes.
fn read(bytes: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let send = async move {
            let _ = theirs.write_all(bytes).await;
        };
        // A reader that gives up leaves the rest unread.
        tokio::select! {
            message = read_message(&mut ours) => message,
            () = async { send.await; std::future::pending().await } => unreachable!(),
        }
    })
}

#[test]
fn messages_are_bounded() {
    let framed = |n: usize| [&u32::try_from(n).unwrap().to_be_bytes()[..], &vec![7; n]].concat();
    for n in [0, 1, 1000, MESSAGE_BYTES_MAX] {
        assert_eq!(read(&framed(n)).unwrap().unwrap().len(), n);
    }
    assert!(read(&framed(MESSAGE_BYTES_MAX + 1)).is_err());
    assert!(read(&[0xff; 8]).is_err());
    assert!(read(&framed(1000)[..1000]).is_err(), "cut off");
    assert!(read(&[]).unwrap().is_none());
}

/// Waits for the next report.
async fn next_event(socket: &OwnedFd) -> NetworkEvent {
    let mut body = [0u8; 1024];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let flags = rustix::net::RecvFlags::DONTWAIT;
    for _ in 0..10_000 {
        if let Ok((n, _)) = ringfence_sys::receive_packet(socket, &mut body, &mut space, flags) {
            return postcard::from_bytes(&body[..n]).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("no report");
}

/// Both ends of a connection to an agent.
fn agent_pair() -> (OwnedFd, UnixStream) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    for end in [&ours, &theirs] {
        end.set_nonblocking(true).unwrap();
    }
    (ours.into(), UnixStream::from_std(theirs).unwrap())
}

#[tokio::test]
async fn a_request_that_is_not_answered_ends_only_its_connection() {
    let (ours, supervisor) = ringfence_sys::packet_pair().unwrap();
    let reporter = Reporter::new(ours).unwrap();
    let (first, silent) = agent_pair();
    let plan = SshAgentPlan { socket: "/agent".into(), access: Vec::new() };
    let mut agent = SshAgent::new(plan, first).unwrap();
    agent.answer_timeout = Duration::from_millis(20);
    assert_eq!(agent.ask(&reporter, &[REQUEST_IDENTITIES]).await, None);
    assert!(matches!(next_event(&supervisor).await, NetworkEvent::Gap(_)));
    // The next request has a connection of its own, where no late answer to the first one can come.
    agent.answer_timeout = AGENT_ANSWER_TIMEOUT;
    let (second, mut answering) = agent_pair();
    let outside = async {
        assert_eq!(next_event(&supervisor).await, NetworkEvent::AgentEnded);
        agent.replace_connection(Some(second));
        let request = read_message(&mut answering).await.unwrap();
        assert_eq!(request, Some(vec![REQUEST_IDENTITIES]));
        write_message(&mut answering, b"answer").await.unwrap();
    };
    let (answer, ()) = tokio::join!(agent.ask(&reporter, &[REQUEST_IDENTITIES]), outside);
    assert_eq!(answer.as_deref(), Some(&b"answer"[..]));
    drop((silent, answering));
    // The connection is closed now, and there is no other.
    let none = async {
        while agent.outside.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
        while agent.outside.try_lock().is_err() {
            agent.replace_connection(None);
            tokio::task::yield_now().await;
        }
    };
    let (answer, ()) = tokio::join!(agent.ask(&reporter, &[REQUEST_IDENTITIES]), none);
    assert_eq!(answer, None);
    assert_eq!(next_event(&supervisor).await, NetworkEvent::AgentEnded);
}

proptest::proptest! {
    #[test]
    fn no_message_panics_and_none_is_signed(
        messages in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 0..300), 1..5),
        kind in proptest::sample::select(vec![SIGN_REQUEST, EXTENSION, REQUEST_IDENTITIES]),
    ) {
        let scene = Scene::new();
        let access = scene.access();
        let mut connection = scene.bound();
        for message in &messages {
            for bytes in [message.clone(), [&[kind], &message[..]].concat(),
                sign(&scene.key, message, 0), [&[EXTENSION], &fields(&[SESSION_BIND])[..], message].concat()] {
                let decision = connection.decide(&access, &bytes);
                let is_signed = matches!(decision, Decision::Sign { .. });
                proptest::prop_assert!(!is_signed);
            }
            identities(message);
        }
    }

    /// One changed byte of a whole session: either it is not a login of this connection, or the user's name is another.
    #[test]
    fn no_changed_byte_is_signed(at in 0usize..10_000, by in 1u8..) {
        let scene = Scene::new();
        let mut request = sign(&scene.key, &scene.login(), 0);
        let at = at % request.len();
        request[at] ^= by;
        let decision = scene.bound().decide(&scene.access(), &request);
        let start = 1 + 4 + scene.key.len() + 4 + 4 + ID.len() + 1 + 4;
        let is_user = (start..start + 3).contains(&at);
        // Flags about RSA mean nothing to this key.
        let is_flags = at == request.len() - 1 && by & !(2 | 4) == 0;
        proptest::prop_assert_eq!(matches!(decision, Decision::Sign { .. }), is_user || is_flags);
    }
}
