//! Logins by the user's SSH agent that a run may have: `--ssh-agent [KEY@]HOST[:PORT][!]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::escape_name;
use crate::network::{Host, host_and_port, split_port};

/// Default port of SSH.
pub const SSH_PORT: u16 = 22;

/// Prefix of a fingerprint, as `ssh-add -l` prints it.
const SHA256: &str = "SHA256:";

/// Characters of a SHA-256 in base64 without padding.
const FINGERPRINT_CHARS: usize = 43;

/// Name of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshKeyName {
    /// `SHA256:…`, as `ssh-add -l` prints it.
    Fingerprint(String),
    /// A file with the public key; absolute, or below the home with `~/`.
    File(PathBuf),
}

/// A host at which keys of the user's agent may log in.
#[derive(Clone, PartialEq, Eq)]
pub struct SshAgentGrant {
    /// The key; `None` for every key of the agent.
    pub key: Option<SshKeyName>,
    /// The host.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// Set by a final `!`: logins that do not name the host's key may be signed too.
    pub allows_unbound: bool,
}

impl SshAgentGrant {
    /// The accepted forms, for a hint.
    pub const FORMS: &str = "write HOST for every key, SHA256:FINGERPRINT@HOST (`ssh-add -l` prints fingerprints) or \
         /PATH/TO/KEY.pub@HOST for one; `:PORT` may follow the host, and `!` at the end allows logins that are not bound \
         to the host's key";

    /// The host, with its port if that is not 22.
    pub fn place(&self) -> String {
        host_and_port(&self.host, self.port, SSH_PORT)
    }
}

impl FromStr for SshAgentGrant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, allows_unbound) = match text.strip_suffix('!') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (key, place) = match text.rsplit_once('@') {
            Some((key, place)) => (Some(key.parse()?), place),
            None => (None, text),
        };
        let (host, port) = split_port(place)?;
        let port = port.unwrap_or(SSH_PORT);
        Ok(Self { key, host: host.parse()?, port, allows_unbound })
    }
}

impl FromStr for SshKeyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = escape_name(text);
        if let Some(hash) = text.strip_prefix(SHA256) {
            let is_base64 = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
            if hash.len() != FINGERPRINT_CHARS || !hash.bytes().all(is_base64) {
                return Err(format!("`{shown}` is not a whole fingerprint"));
            }
            return Ok(Self::Fingerprint(text.to_owned()));
        }
        if text.starts_with('/') || text.starts_with("~/") {
            return Ok(Self::File(text.into()));
        }
        Err(format!("`{shown}` is not a key; users of the host are not part of a grant"))
    }
}

/// As it is written.
impl fmt::Display for SshAgentGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(SshKeyName::Fingerprint(text)) => write!(f, "{text}@")?,
            Some(SshKeyName::File(path)) => write!(f, "{}@", path.display())?,
            None => {}
        }
        f.write_str(&self.place())?;
        f.write_str(if self.allows_unbound { "!" } else { "" })
    }
}

impl fmt::Debug for SshAgentGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SshAgentGrant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_a_host_with_or_without_a_key() {
        let fingerprint = format!("SHA256:{}", "a+/0".repeat(11).split_at(43).0);
        for text in [
            "git.example.com",
            "git.example.com:2222",
            "git.example.com!",
            "git.example.com:2222!",
            "192.0.2.7",
            "[2001:db8::1]",
            "[2001:db8::1]:2222",
            "/home/me/.ssh/id_ed25519.pub@git.example.com",
            "~/.ssh/a@b.pub@git.example.com:2222",
            &format!("{fingerprint}@git.example.com"),
            &format!("{fingerprint}@git.example.com!"),
        ] {
            let grant: SshAgentGrant = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(grant.to_string(), text);
        }
        let grant: SshAgentGrant = "Git.Example.COM.:22".parse().unwrap();
        assert_eq!((grant.to_string().as_str(), grant.port), ("git.example.com", 22));
        for text in [
            "",
            "!",
            "git.example.com!!",
            "git.example.com!:22",
            "@git.example.com",
            "git@github.com",
            "id_ed25519.pub@h.test",
            "./id.pub@h.test",
            "SHA256:short@h.test",
            "MD5:00:11@h.test",
            &format!("{fingerprint}=@h.test"),
            &format!("{fingerprint}@"),
            "*.example.com",
            "h.test:0",
            "h.test:65536",
            "h.test:",
            "2001:db8::1",
        ] {
            assert!(text.parse::<SshAgentGrant>().is_err(), "{text}");
        }
    }
}
