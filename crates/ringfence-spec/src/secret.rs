//! A credential that a run uses without having it: where the host reads it, and the one host that receives it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::network::{Host, HostName, covers_path};

/// Port of a secret's host that names none.
const HTTPS: u16 = 443;

/// The longest value of a credential.
pub const SECRET_BYTES_MAX: u64 = 16 << 10;

/// Where the host reads a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the caller.
    Variable(String),
    /// The content of a file, without a final newline.
    File(PathBuf),
    /// The output of a shell command, without a final newline.
    Command(String),
}

/// A credential and its scope.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretGrant {
    /// Variable of the run that holds a placeholder.
    pub name: String,
    /// Where the value is read.
    pub source: SecretSource,
    /// The host that receives it.
    pub host: HostName,
    /// The port of that host.
    pub port: u16,
    /// Beginning of the paths that receive it; `/` for all.
    pub path: String,
}

impl SecretGrant {
    /// The host as one that rules decide about.
    pub fn target(&self) -> Host {
        Host::Name(self.host.clone())
    }

    /// Returns true if a request for this path may carry the credential.
    pub fn covers(&self, path: &str) -> bool {
        covers_path(&self.path, path)
    }
}

impl FromStr for SecretGrant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            format!(
                "{why}; write NAME=env:VARIABLE@HOST, NAME=file:PATH@HOST or NAME=cmd:COMMAND@HOST, with [/PATH] after the host"
            )
        };
        let (name, rest) = text.split_once('=').ok_or_else(|| bad("there is no `=`"))?;
        let is_name = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(bad(&format!("`{name}` is not a variable name")));
        }
        let (source, scope) = rest.rsplit_once('@').ok_or_else(|| bad("there is no `@HOST`"))?;
        let source = match source.split_once(':') {
            Some(("env", variable)) if !variable.is_empty() => {
                SecretSource::Variable(variable.to_owned())
            }
            Some(("file", path)) if path.starts_with('/') => SecretSource::File(path.into()),
            Some(("file", _)) => return Err(bad("the path of a secret must be absolute")),
            Some(("cmd", command)) if !command.trim().is_empty() => {
                SecretSource::Command(command.to_owned())
            }
            _ => return Err(bad("the source is not env:, file: or cmd:")),
        };
        let (host, path) = match scope.find('/') {
            Some(at) => scope.split_at(at),
            None => (scope, "/"),
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => (
                host,
                port.parse()
                    .ok()
                    .filter(|port| *port != 0)
                    .ok_or_else(|| bad(&format!("`{port}` is not a port")))?,
            ),
            None => (host, HTTPS),
        };
        let host = match host.parse::<Host>()? {
            Host::Name(name) => name,
            Host::Ip(_) => return Err(bad("a secret is for a host with a name")),
        };
        if path.contains(['?', '#']) {
            return Err(bad("a path has no `?` and no `#`"));
        }
        Ok(Self { name: name.to_owned(), source, host, port, path: path.to_owned() })
    }
}

/// As it is written.
impl fmt::Display for SecretGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, source, host, port, path } = self;
        match source {
            SecretSource::Variable(variable) => write!(f, "{name}=env:{variable}")?,
            SecretSource::File(file) => write!(f, "{name}=file:{}", file.display())?,
            SecretSource::Command(command) => write!(f, "{name}=cmd:{command}")?,
        }
        write!(f, "@{host}")?;
        if *port != HTTPS {
            write!(f, ":{port}")?;
        }
        if path == "/" { Ok(()) } else { f.write_str(path) }
    }
}

impl fmt::Debug for SecretGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SecretGrant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretGrant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_a_name_a_source_and_a_scope() {
        for text in [
            "TOKEN=env:GH_TOKEN@api.github.com",
            "TOKEN=file:/run/secrets/x@registry.corp:8443/v2/",
            "TOKEN=cmd:pass show a@b@api.example.com/v1",
        ] {
            let grant: SecretGrant = text.parse().unwrap();
            assert_eq!(grant.to_string(), text);
        }
        for text in [
            "TOKEN",
            "TOKEN=x@h.test",
            "=env:X@h.test",
            "1A=env:X@h.test",
            "A=env:@h.test",
            "A=env:X",
            "A=file:relative@h.test",
            "A=env:X@127.0.0.1",
            "A=env:X@h.test:0",
            "A=env:X@h.test/p?q",
            "A=cmd: @h.test",
        ] {
            assert!(text.parse::<SecretGrant>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_scope_is_a_prefix_of_whole_segments() {
        let grant: SecretGrant = "A=env:X@h.test/v1".parse().unwrap();
        for (path, covered) in [
            ("/v1", true),
            ("/v1/", true),
            ("/v1/x", true),
            ("/v10", false),
            ("/", false),
            ("/v1/../v2", false),
            ("/v1/%2e%2E/v2", false),
            ("/v1/..%2fv2", false),
            ("/v1/..\\v2", false),
        ] {
            assert_eq!(grant.covers(path), covered, "{path}");
        }
        let all: SecretGrant = "A=env:X@h.test".parse().unwrap();
        assert!(all.covers("/") && all.covers("/a/../b"));
    }
}
