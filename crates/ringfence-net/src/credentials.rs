//! Credentials that requests carry and the run never has. The run has placeholders; a request to the right host and path
//! gets the value instead, and an answer that repeats the value gets the placeholder back.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use memchr::memmem;
use ringfence_spec::network::Host;
use ringfence_spec::{NetworkEvent, SECRET_BYTES_MAX, SecretGrant, SecretSource};
use ringfence_sys::CallError;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::auth_fields::{authenticates, replace_in_query};
use crate::report::Reporter;

/// A file is read again before a request if its value is older.
const FILE_AGE_MAX: Duration = Duration::from_secs(10);

/// Time that a request waits for a value that is read again. Then it carries the old one.
const REREAD_MAX: Duration = Duration::from_secs(10);

/// Time before a refused value is read again that was the same the last time, and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// Earlier values of a secret that answers may repeat.
const VALUES_KEPT: usize = 4;

/// Beginnings that clients check before they use a token. They name the issuer and no more.
const KNOWN_PREFIXES: [&str; 19] = [
    "sk-ant-api03-",
    "sk-ant-oat01-",
    "sk-ant-",
    "sk-proj-",
    "sk-or-v1-",
    "sk-",
    "github_pat_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "glpat-",
    "npm_",
    "pypi-",
    "hf_",
    "xoxb-",
    "xoxp-",
    "AIza",
    "AKIA",
];

/// Values and rules by which the helper puts credentials into requests. Passed by descriptor, and never part of a plan.
#[derive(Serialize, Deserialize)]
pub struct Credentials {
    /// Key of the run's certificate authority.
    pub authority_key: Vec<u8>,
    /// Certificates that are trusted besides the host's own, as PEM.
    pub roots_pem: Vec<u8>,
    /// The credentials.
    pub all: Vec<Credential>,
}

/// One credential.
#[derive(Serialize, Deserialize)]
pub struct Credential {
    /// Name, source and scope, as written.
    pub grant: String,
    /// Stands for the value inside the run; of the same length.
    pub placeholder: String,
    /// The value.
    pub value: String,
    /// Time at which it was read. The helper starts with the first connection, which may be long after.
    pub read_at: SystemTime,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Writes them to a memory file for the helper.
    pub fn into_memory(self) -> Result<OwnedFd, CallError> {
        let mut bytes = postcard::to_allocvec(&self)
            .map_err(|_| CallError::new("serialize(credentials)", Errno::INVAL))?;
        let memory = ringfence_sys::memory_file("ringfence-credentials", &bytes);
        // A process forked from this one later has a copy of its memory.
        bytes.fill(0);
        self.forget();
        memory
    }

    fn forget(self) {
        for credential in self.all {
            forget(credential.value);
        }
    }
}

/// Overwrites a value before its memory is freed.
pub fn forget(value: String) {
    let mut bytes = value.into_bytes();
    bytes.fill(0);
    std::hint::black_box(&bytes);
}

/// Makes a placeholder of the same length and the same kinds of characters. Random, so that it is told apart from any
/// other text; of the value it keeps only a known prefix.
pub fn placeholder(value: &str) -> Result<String, Errno> {
    let known = KNOWN_PREFIXES.iter().find(|prefix| value.starts_with(**prefix));
    let mut shown = known.map_or_else(String::new, |prefix| (*prefix).to_owned());
    for c in value.chars().skip(shown.chars().count()) {
        let class: &[u8] = match c {
            '0'..='9' => b"0123456789",
            'A'..='Z' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            'a'..='z' => b"abcdefghijklmnopqrstuvwxyz",
            _ => {
                shown.push(c);
                continue;
            }
        };
        let mut byte = [0u8; 1];
        rustix::rand::getrandom(&mut byte, rustix::rand::GetRandomFlags::empty())?;
        shown.push(char::from(class[usize::from(byte[0]) % class.len()]));
    }
    Ok(shown)
}

/// A credential with its scope parsed.
pub(crate) struct Scoped {
    grant: SecretGrant,
    placeholder: String,
    /// The value, and after it those that it replaced.
    values: RefCell<VecDeque<String>>,
    read_at: Cell<Instant>,
    /// True if the host refused the value.
    is_stale: Cell<bool>,
    /// Time before a refused value is read again; longer each time that it was the same.
    pause: Cell<Duration>,
    is_asked: Cell<bool>,
    answered: Notify,
    /// True if the host reads it again when asked.
    is_reread: bool,
}

/// The credentials of a run.
#[derive(Default)]
pub(crate) struct Scopes(Vec<Scoped>);

/// A placeholder where its value does not go.
pub(crate) struct Misplaced {
    /// Name of the secret.
    pub(crate) name: String,
    /// The reason, in words for the run.
    pub(crate) reason: String,
}

impl Scopes {
    /// Parses the scopes; `reread` has the secrets that the host reads again, at their places.
    pub(crate) fn new(
        all: Vec<Credential>,
        reread: &[Option<SecretGrant>],
    ) -> Result<Self, String> {
        let reread = reread.iter().map(Option::is_some).chain(std::iter::repeat(false));
        let scoped = all.into_iter().zip(reread).map(|(credential, is_reread)| {
            let Credential { grant, placeholder, value, read_at } = credential;
            let age = read_at.elapsed().unwrap_or_default();
            Ok(Scoped {
                grant: grant.parse()?,
                placeholder,
                values: RefCell::new(VecDeque::from([value])),
                read_at: Cell::new(Instant::now().checked_sub(age).unwrap_or_else(Instant::now)),
                is_stale: Cell::new(false),
                pause: Cell::new(Duration::ZERO),
                is_asked: Cell::new(false),
                answered: Notify::new(),
                is_reread,
            })
        });
        scoped.collect::<Result<_, String>>().map(Self)
    }

    /// Returns true if requests to this host are read to put a credential in.
    pub(crate) fn has(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|s| s.is_for(host, port))
    }

    /// Returns true if requests to this host carry a credential below a path only.
    pub(crate) fn judge_paths(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|s| s.is_for(host, port) && s.grant.path != "/")
    }

    /// Has values for this host read again that may have been replaced, and waits for them.
    pub(crate) async fn refresh(&self, host: &Host, port: u16, reporter: &Reporter) {
        for (index, scoped) in (0u16..).zip(&self.0) {
            if !scoped.is_for(host, port) || !scoped.may_be_old() {
                continue;
            }
            let answered = scoped.answered.notified();
            if !scoped.is_asked.replace(true) {
                reporter.send(&NetworkEvent::RereadSecret(index));
            }
            let _ = tokio::time::timeout(REREAD_MAX, answered).await;
            // Without an answer the next request asks again.
            scoped.is_asked.set(false);
        }
    }

    /// Notes that the host refused a request that carried these credentials.
    pub(crate) fn refused_by_host(&self, carried: &[usize]) {
        for scoped in carried.iter().filter_map(|index| self.0.get(*index)) {
            scoped.is_stale.set(true);
        }
    }

    /// Takes a value that was read again; `None` if it could not be.
    pub(crate) fn replace_value(&self, index: u16, memory: Option<OwnedFd>) {
        let Some(scoped) = self.0.get(usize::from(index)) else { return };
        scoped.read_at.set(Instant::now());
        scoped.is_stale.set(false);
        scoped.is_asked.set(false);
        let mut value = String::new();
        let read = memory
            .map(|memory| File::from(memory).take(SECRET_BYTES_MAX).read_to_string(&mut value));
        if !matches!(read, Some(Ok(1..))) || value == scoped.value() {
            forget(value);
            let pause = (scoped.pause.get() * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            scoped.pause.set(pause);
        } else {
            scoped.pause.set(Duration::ZERO);
            let mut values = scoped.values.borrow_mut();
            values.push_front(value);
            if values.len() > VALUES_KEPT
                && let Some(old) = values.pop_back()
            {
                forget(old);
            }
        }
        scoped.answered.notify_waiters();
    }

    /// Returns true if every value is as long as its placeholder, so that replacing one changes no length.
    pub(crate) fn keep_lengths(&self) -> bool {
        self.0.iter().all(|s| s.values.borrow().iter().all(|v| v.len() == s.placeholder.len()))
    }

    /// Replaces placeholders by values in a request's head; refuses a placeholder whose scope is elsewhere. Returns the
    /// credentials that the request carries.
    pub(crate) fn put_in(
        &self,
        host: &Host,
        port: u16,
        tls: bool,
        path_and_query: &mut String,
        headers: &mut HeaderMap,
    ) -> Result<Vec<usize>, Misplaced> {
        let mut carried = Vec::new();
        for (index, scoped) in self.0.iter().enumerate() {
            let mut is_carried = false;
            let path = path_and_query.split('?').next().unwrap_or_default().to_owned();
            let grant = &scoped.grant;
            let in_scope =
                tls && grant.port == port && grant.target() == *host && grant.covers(&path);
            let misplaced = || {
                let name = grant.name.clone();
                let reason = if in_scope {
                    format!(
                        "the placeholder of `{name}` is for fields that authenticate only, such as `Authorization`, `Cookie`, `X-Api-Key` or `?access_token=`"
                    )
                } else {
                    format!("the placeholder of `{name}` is for {}{} only", grant.host, grant.path)
                };
                Misplaced { name, reason }
            };
            if path_and_query.contains(&scoped.placeholder) {
                let query = path_and_query.split_once('?').filter(|_| in_scope);
                let replaced = query.filter(|(path, _)| !path.contains(&scoped.placeholder));
                let replaced = replaced.and_then(|(path, query)| {
                    let query = replace_in_query(query, &scoped.placeholder, &scoped.value())?;
                    Some(format!("{path}?{query}"))
                });
                *path_and_query = replaced.ok_or_else(misplaced)?;
                is_carried = true;
            }
            for (name, value) in headers.iter_mut() {
                let is_basic = *name == AUTHORIZATION || *name == PROXY_AUTHORIZATION;
                let Some(replaced) = scoped.replaced(value.as_bytes(), is_basic) else { continue };
                if !in_scope || !authenticates(name.as_str()) {
                    return Err(misplaced());
                }
                *value = HeaderValue::from_bytes(&replaced).map_err(|_| misplaced())?;
                value.set_sensitive(true);
                is_carried = true;
            }
            if is_carried {
                carried.push(index);
            }
        }
        Ok(carried)
    }

    /// Replaces values by placeholders in the head of an answer.
    pub(crate) fn take_out(&self, headers: &mut HeaderMap) {
        for scoped in &self.0 {
            for secret in &*scoped.values.borrow() {
                for value in headers.values_mut() {
                    let clean = replace(value.as_bytes(), secret, &scoped.placeholder);
                    let clean = clean.and_then(|clean| HeaderValue::from_bytes(&clean).ok());
                    if let Some(clean) = clean {
                        *value = clean;
                    }
                }
                let secret = secret.to_ascii_lowercase();
                let named: Vec<HeaderName> = headers.keys().cloned().collect();
                for name in named.into_iter().filter(|name| name.as_str().contains(&secret)) {
                    headers.remove(name);
                }
            }
        }
    }

    /// Replacements for the body of an answer.
    pub(crate) fn streams(&self) -> Vec<StreamReplace> {
        let mut streams = Vec::new();
        for scoped in &self.0 {
            let values = scoped.values.borrow();
            streams.extend(values.iter().map(|v| StreamReplace::new(v, &scoped.placeholder)));
        }
        streams
    }

    /// Values and placeholders of the same length, for what follows a change of protocol: the length of frames stays.
    pub(crate) fn equal_lengths(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let streams = self.streams().into_iter();
        streams
            .filter(|stream| stream.from.len() == stream.to.len())
            .map(|stream| (stream.from, stream.to.into_bytes()))
            .collect()
    }
}

impl Scoped {
    fn is_for(&self, host: &Host, port: u16) -> bool {
        self.grant.port == port && self.grant.target() == *host
    }

    fn value(&self) -> String {
        self.values.borrow().front().cloned().unwrap_or_default()
    }

    /// Returns true if its source may hold another value by now.
    fn may_be_old(&self) -> bool {
        let age = self.read_at.get().elapsed();
        let is_file = matches!(self.grant.source, SecretSource::File(_));
        let is_refused = self.is_stale.get() && age >= self.pause.get();
        self.is_reread && (is_refused || is_file && age > FILE_AGE_MAX)
    }

    /// The header value with the credential in it; `None` if it has no placeholder.
    fn replaced(&self, value: &[u8], is_authorization: bool) -> Option<Vec<u8>> {
        if let Some(replaced) = replace(value, &self.placeholder, &self.value()) {
            return Some(replaced);
        }
        // User name and password of HTTP's basic scheme, as git and pip send them.
        let encoded = value.strip_prefix(b"Basic ").filter(|_| is_authorization)?;
        let decoded = BASE64.decode(encoded).ok()?;
        let replaced = replace(&decoded, &self.placeholder, &self.value())?;
        Some([b"Basic ", BASE64.encode(replaced).as_bytes()].concat())
    }
}

/// Replaces every occurrence; `None` if there is none.
fn replace(text: &[u8], from: &str, to: &str) -> Option<Vec<u8>> {
    memmem::find(text, from.as_bytes())?;
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memmem::find(rest, from.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to.as_bytes());
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// Replaces a text in a stream, also where it lies across two parts.
pub(crate) struct StreamReplace {
    from: Vec<u8>,
    to: String,
    /// The end of the last part, if it may be the beginning of `from`.
    kept: Vec<u8>,
}

impl StreamReplace {
    fn new(from: &str, to: &str) -> Self {
        Self { from: from.as_bytes().to_vec(), to: to.to_owned(), kept: Vec::new() }
    }

    /// Takes a part and returns what can be passed on.
    pub(crate) fn push(&mut self, part: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.kept);
        text.extend_from_slice(part);
        let from = String::from_utf8_lossy(&self.from).into_owned();
        if let Some(replaced) = replace(&text, &from, &self.to) {
            text = replaced;
        }
        let longest = self.from.len().saturating_sub(1).min(text.len());
        let kept = (1..=longest).rev().find(|n| self.from.starts_with(&text[text.len() - n..]));
        self.kept = text.split_off(text.len() - kept.unwrap_or(0));
        text
    }

    /// Returns what was kept: no more comes.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scopes() -> Scopes {
        Scopes::new(
            vec![Credential {
                grant: "TOKEN=env:X@api.test/v1".into(),
                placeholder: "sk-PLACEHOLDER".into(),
                value: "sk-theREALVALU".into(),
                read_at: SystemTime::now(),
            }],
            &[],
        )
        .unwrap_or_else(|e| panic!("{e}"))
    }

    fn sent(host: &str, tls: bool, path: &str, header: &str) -> Result<(String, String), String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, header.parse().unwrap());
        let mut path = path.to_owned();
        let host: Host = host.parse().unwrap();
        match scopes().put_in(&host, 443, tls, &mut path, &mut headers) {
            Ok(carried) => {
                let header = headers[AUTHORIZATION].to_str().unwrap().to_owned();
                assert_eq!(
                    carried.len(),
                    usize::from(
                        format!("{path}{header}").contains("VALU") || header.starts_with("Basic")
                    )
                );
                Ok((path, header))
            }
            Err(misplaced) => Err(misplaced.name),
        }
    }

    #[test]
    fn a_placeholder_becomes_the_value_in_its_scope_and_nowhere_else() {
        let bearer = "Bearer sk-PLACEHOLDER";
        assert_eq!(sent("api.test", true, "/v1/x", bearer).unwrap().1, "Bearer sk-theREALVALU");
        let query = sent("api.test", true, "/v1/x?key=sk-PLACEHOLDER", "x").unwrap();
        assert_eq!(query.0, "/v1/x?key=sk-theREALVALU");
        let basic = format!("Basic {}", BASE64.encode("git:sk-PLACEHOLDER"));
        let real = format!("Basic {}", BASE64.encode("git:sk-theREALVALU"));
        assert_eq!(sent("api.test", true, "/v1", &basic).unwrap().1, real);
        for (host, tls, path) in [
            ("api.test", true, "/v2/x"),
            ("api.test", false, "/v1/x"),
            ("other.test", true, "/v1/x"),
            ("api.test", true, "/v1/../x"),
            ("api.test", true, "/v1/sk-PLACEHOLDER"),
        ] {
            assert_eq!(sent(host, tls, path, bearer), Err("TOKEN".into()), "{host} {tls} {path}");
        }
        assert_eq!(sent("other.test", false, "/", "Bearer own").unwrap().1, "Bearer own");
    }

    #[test]
    fn a_placeholder_has_the_shape_of_its_value() {
        let value = "sk-ant-api03-Ab9_xyz-ABC123";
        let shown = placeholder(value).unwrap();
        assert_eq!(shown.len(), value.len());
        assert!(shown.starts_with("sk-ant-api03-") && shown != value);
        assert_eq!(&shown[16..17], "_");
        assert!(placeholder("Zz9Zz9Zz9Zz9").unwrap().chars().next().unwrap().is_ascii_uppercase());
    }

    proptest! {
        #[test]
        fn a_value_is_replaced_wherever_a_stream_is_cut(
            before in "[a-e]{0,12}", after in "[a-e]{0,12}", cuts in prop::collection::vec(1usize..6, 1..20)
        ) {
            let text = format!("{before}abcab{after}abcab");
            let expected = text.replace("abcab", "XXXXX");
            let mut stream = StreamReplace::new("abcab", "XXXXX");
            let mut out = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (part, more) = rest.split_at((*cut).min(rest.len()));
                out.extend(stream.push(part));
                rest = more;
            }
            out.extend(stream.finish());
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
