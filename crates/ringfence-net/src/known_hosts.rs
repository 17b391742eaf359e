//! Keys of hosts in ssh's own lists: sshd(8), "`SSH_KNOWN_HOSTS` FILE FORMAT". Does no I/O.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use ringfence_spec::SSH_PORT;
use ringfence_spec::network::Host;

use crate::ssh_key::{is_verifiable, key_type};

/// Keys of one host.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KnownKeys {
    /// Keys whose signatures can be verified, in SSH's own encoding.
    pub keys: Vec<Vec<u8>>,
    /// Types of its other keys, and `@cert-authority` for authorities that vouch for it.
    pub unusable: Vec<String>,
}

/// Finds the keys of a host in the text of such lists. A key that any of them revokes for it is left out.
pub fn find(lists: &[String], host: &Host, port: u16) -> KnownKeys {
    let name = name(host, port);
    let mut found = KnownKeys::default();
    let mut revoked: Vec<Vec<u8>> = Vec::new();
    for line in lists.iter().flat_map(|list| list.lines()).filter_map(Line::parse) {
        if !names_host(line.hosts, &name) {
            continue;
        }
        match line.marker {
            None if is_verifiable(&line.key) => found.keys.push(line.key),
            None => found.unusable.push(line.kind.to_owned()),
            Some("@revoked") => revoked.push(line.key),
            Some(marker) => found.unusable.push(marker.to_owned()),
        }
    }
    found.keys.retain(|key| !revoked.contains(key));
    found.keys.sort();
    found.keys.dedup();
    found.unusable.sort();
    found.unusable.dedup();
    found
}

/// The line of such a list for a key of a host.
pub fn line(host: &Host, port: u16, key: &[u8]) -> String {
    let kind = key_type(key).unwrap_or_default();
    format!("{} {kind} {}\n", name(host, port), STANDARD.encode(key))
}

/// The name of a host in such a list.
fn name(host: &Host, port: u16) -> String {
    match port {
        SSH_PORT => host.to_string(),
        port => format!("[{host}]:{port}"),
    }
}

struct Line<'a> {
    marker: Option<&'a str>,
    hosts: &'a str,
    kind: &'a str,
    key: Vec<u8>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let mut words = line.split_ascii_whitespace();
        let mut word = words.next()?;
        let marker = word.starts_with('@').then_some(word);
        if marker.is_some() {
            word = words.next()?;
        }
        let (hosts, kind) = (word, words.next()?);
        let key = STANDARD.decode(words.next()?).ok()?;
        (key_type(&key) == Some(kind)).then_some(Self { marker, hosts, kind, key })
    }
}

/// Returns true if the first field of a line names a host.
fn names_host(hosts: &str, name: &str) -> bool {
    if let Some(hashed) = hosts.strip_prefix("|1|") {
        return is_hash_of(hashed, name).is_some();
    }
    let mut is_named = false;
    for pattern in hosts.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if matches_wildcard(pattern.as_bytes(), name.as_bytes()) => return false,
            None if matches_wildcard(pattern.as_bytes(), name.as_bytes()) => is_named = true,
            _ => {}
        }
    }
    is_named
}

/// `SALT|HASH`: HMAC-SHA1 of the name.
fn is_hash_of(hashed: &str, name: &str) -> Option<()> {
    let (salt, hash) = hashed.split_once('|')?;
    let (salt, hash) = (STANDARD.decode(salt).ok()?, STANDARD.decode(hash).ok()?);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    ring::hmac::verify(&key, name.as_bytes(), &hash).ok()
}

/// Matches `*` and `?`, in any case of letters.
fn matches_wildcard(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // The last `*`, and the part of the name that it takes so far.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(c) if *c == b'?' || c.eq_ignore_ascii_case(&name[in_name]) => {
                at += 1;
                in_name += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    at = star_at + 1;
                    in_name = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh_key::put_string;

    fn key(n: u8) -> Vec<u8> {
        let mut key = Vec::new();
        put_string(&mut key, b"ssh-ed25519");
        put_string(&mut key, &[n; 32]);
        key
    }

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    fn entry(hosts: &str, n: u8) -> String {
        format!("{hosts} ssh-ed25519 {} a comment\n", STANDARD.encode(key(n)))
    }

    fn hashed(name: &str) -> String {
        let salt = [7u8; 20];
        let hmac = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
        let hash = ring::hmac::sign(&hmac, name.as_bytes());
        format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(hash))
    }

    #[test]
    fn a_host_is_found_by_name_pattern_and_hash() {
        for (hosts, port, is_found) in [
            ("git.test".to_owned(), 22, true),
            ("GIT.test".to_owned(), 22, true),
            ("git.test".to_owned(), 2222, false),
            ("[git.test]:2222".to_owned(), 2222, true),
            ("[git.test]:2222".to_owned(), 22, false),
            ("other.test,git.test,192.0.2.7".to_owned(), 22, true),
            ("*.test".to_owned(), 22, true),
            ("g?t.*".to_owned(), 22, true),
            ("*.test,!git.test".to_owned(), 22, false),
            ("!git.test,*.test".to_owned(), 22, false),
            ("git.test.evil".to_owned(), 22, false),
            ("agit.test".to_owned(), 22, false),
            ("*****a".to_owned(), 22, false),
            (hashed("git.test"), 22, true),
            (hashed("git.test"), 2222, false),
            (hashed("[git.test]:2222"), 2222, true),
            (hashed("other.test"), 22, false),
            ("|1|x|y".to_owned(), 22, false),
        ] {
            let found = find(&[entry(&hosts, 1)], &host("git.test"), port);
            assert_eq!(!found.keys.is_empty(), is_found, "{hosts} {port}");
        }
    }

    #[test]
    fn revoked_keys_and_authorities_are_no_keys() {
        let lists = [
            format!("# git.test\n\n{}{}", entry("git.test", 1), entry("git.test", 2)),
            format!("@revoked {}@cert-authority {}", entry("*", 1), entry("*.test", 3)),
            "git.test ssh-ed25519 not-base64\ngit.test ssh-rsa AAAA\ngit.test\n".to_owned(),
        ];
        let found = find(&lists, &host("git.test"), 22);
        assert_eq!(found.keys, [key(2)]);
        assert_eq!(found.unusable, ["@cert-authority"]);
        assert_eq!(
            find(&[line(&host("git.test"), 2222, &key(4))], &host("git.test"), 2222).keys,
            [key(4)]
        );
    }

    proptest::proptest! {
        #[test]
        fn no_list_panics(text in ".{0,400}", pattern in "[a-z*?!\\[\\]]{0,12}") {
            find(std::slice::from_ref(&text), &host("git.test"), 22);
            find(&[format!("{pattern} {text}")], &host("git.test"), 2222);
        }
    }
}
