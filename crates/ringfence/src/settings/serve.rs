//! Settings of `ringfence serve`: flags, else the table `[serve]` of the policy file, else that of the user's file.

use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use ringfence_engine::admission::AdmissionSettings;
use ringfence_server::http::{Authority, HttpLimits, TlsFiles};
use ringfence_spec::{ByteSize, Code, Count, Problem, Span};

use super::Surroundings;
use super::layer::{Switch, read_table, text};
use super::names::nearest;
use super::notify::{invalid_url, is_address};
use crate::cli::{PolicyFlags, ServiceFlags};

/// Name of the table.
pub(super) const TABLE: &str = "serve";

/// Its settings.
pub(super) const KEYS: [&str; 16] = [
    "allow_host",
    "authorization_server",
    "body",
    "breakers",
    "concurrent",
    "concurrent_per_client",
    "connections",
    "cors_origins",
    "drain",
    "listen",
    "public_url",
    "queue",
    "rate_per_minute",
    "tls_cert",
    "tls_key",
    "upload",
];

/// Default listen address: this machine only.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7400);

/// Settings of a service.
#[derive(Debug)]
pub(crate) struct Service {
    /// Listen address.
    pub(crate) listen: SocketAddr,
    /// Accepted host names.
    pub(crate) allow_hosts: Vec<String>,
    /// Origins whose pages may use the service.
    pub(crate) cors_origins: Vec<String>,
    /// Certificate and key.
    pub(crate) tls: Option<TlsFiles>,
    /// Authorization servers that issue tokens.
    pub(crate) authority: Option<Authority>,
    /// Limits of the service.
    pub(crate) limits: HttpLimits,
    /// Admission settings.
    pub(crate) admission: AdmissionSettings,
}

/// Reads the settings of a service.
pub(crate) fn service(
    flags: &ServiceFlags,
    policy: &PolicyFlags,
    around: &Surroundings,
) -> Result<Service, Problem> {
    let mut said = flags.clone();
    for file in around.operators_files(policy) {
        let table = read_table(&file)?.and_then(|mut table| take_table(&mut table));
        if let Some(table) = table {
            fill(&mut said, table, &file)?;
        }
    }
    decide(said, &around.cwd)
}

/// Checks a file's table by itself, for `policy check`.
pub(super) fn check_file(file: &Path) -> Result<(), Problem> {
    let mut said = ServiceFlags::default();
    if let Some(table) = read_table(file)?.and_then(|mut table| take_table(&mut table)) {
        fill(&mut said, table, file)?;
    }
    decide(said, Path::new("/")).map(drop)
}

/// Removes the table from a file, where it stands among settings of runs.
pub(super) fn take_table(table: &mut toml::Table) -> Option<toml::Table> {
    match table.get(TABLE) {
        Some(toml::Value::Table(_)) => match table.remove(TABLE) {
            Some(toml::Value::Table(own)) => Some(own),
            _ => None,
        },
        _ => None,
    }
}

/// Fills the settings that are still unset from a file.
fn fill(said: &mut ServiceFlags, table: toml::Table, file: &Path) -> Result<(), Problem> {
    for (name, value) in table {
        let wrong = |cause: &str| {
            let shown = file.display();
            Problem::usage(
                Code::BadValue,
                format!("`{name}` in `[{TABLE}]` of `{shown}` has a bad value"),
            )
            .cause(cause)
        };
        let several = match name.as_str() {
            "allow_host" => Some(&mut said.allow_host),
            "cors_origins" => Some(&mut said.cors_origins),
            "authorization_server" => Some(&mut said.authorization_server),
            _ => None,
        };
        if let Some(several) = several {
            let all = value.as_array().map(|all| all.iter().map(text).collect());
            let all: Option<Vec<String>> = all.unwrap_or_else(|| text(&value).map(|one| vec![one]));
            let all = all.ok_or_else(|| wrong("a list of names is expected"))?;
            if several.is_empty() {
                *several = all;
            }
            continue;
        }
        let place = match name.as_str() {
            "listen" => &mut said.listen,
            "public_url" => &mut said.public_url,
            "tls_cert" => &mut said.tls_cert,
            "tls_key" => &mut said.tls_key,
            "rate_per_minute" => &mut said.rate_per_minute,
            "concurrent" => &mut said.concurrent,
            "concurrent_per_client" => &mut said.concurrent_per_client,
            "queue" => &mut said.queue,
            "breakers" => &mut said.breakers,
            "body" => &mut said.body,
            "upload" => &mut said.upload,
            "connections" => &mut said.connections,
            "drain" => &mut said.drain,
            _ => {
                let shown = file.display();
                return Err(Problem::usage(
                    Code::UnknownKey,
                    format!("`{name}` in `[{TABLE}]` of `{shown}` is not a setting"),
                )
                .hint(match nearest(&name, KEYS) {
                    _ if name == "port" || name == "host" || name == "address" => {
                        "write `listen = \"127.0.0.1:7400\"`, an address and a port".to_owned()
                    }
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("its settings are {}", KEYS.join(", ")),
                }));
            }
        };
        let value = text(&value).ok_or_else(|| match value {
            toml::Value::Boolean(_) => {
                wrong("a switch is the text `on` or `off`, in quotation marks")
            }
            _ => wrong("a text or a number is expected"),
        })?;
        place.get_or_insert(value);
    }
    Ok(())
}

fn decide(said: ServiceFlags, cwd: &Path) -> Result<Service, Problem> {
    let usual = AdmissionSettings::service();
    let (bounds, body) = (HttpLimits::default(), parse::<ByteSize>("body", said.body.as_deref())?);
    let tls = match (said.tls_cert, said.tls_key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some(TlsFiles { cert: cwd.join(cert), key: cwd.join(key) }),
        _ => {
            return Err(Problem::usage(Code::TlsFiles, "TLS needs both a certificate and its key")
                .hint("set both `tls_cert` and `tls_key`"));
        }
    };
    let authority = authority(said.public_url, said.authorization_server)?;
    let breakers = parse::<Switch>("breakers", said.breakers.as_deref())?;
    Ok(Service {
        listen: parse("listen", said.listen.as_deref())?.unwrap_or(LISTEN),
        allow_hosts: said.allow_host,
        cors_origins: said.cors_origins,
        tls,
        authority,
        limits: HttpLimits {
            body_bytes_max: body.map_or(bounds.body_bytes_max, |size| {
                usize::try_from(size.bytes()).unwrap_or(usize::MAX)
            }),
            upload_bytes_max: parse::<ByteSize>("upload", said.upload.as_deref())?
                .map_or(bounds.upload_bytes_max, |size| {
                    usize::try_from(size.bytes()).unwrap_or(usize::MAX)
                }),
            connections_max: parse::<Count>("connections", said.connections.as_deref())?
                .map_or(bounds.connections_max, |n| n.get() as usize),
            drain: parse::<Span>("drain", said.drain.as_deref())?
                .map_or(bounds.drain, |span| Duration::from_millis(span.millis())),
        },
        admission: AdmissionSettings {
            rate_per_minute: match said.rate_per_minute {
                None => usual.rate_per_minute,
                said => bound("rate_per_minute", said.as_deref())?,
            },
            concurrent: match said.concurrent {
                None => usual.concurrent,
                said => bound("concurrent", said.as_deref())?.map(|n| n as usize),
            },
            concurrent_per_client: match said.concurrent_per_client {
                None => usual.concurrent_per_client,
                said => bound("concurrent_per_client", said.as_deref())?.map(|n| n as usize),
            },
            queue: match said.queue {
                None => usual.queue,
                said => bound("queue", said.as_deref())?.map(|n| n as usize),
            },
            breakers: breakers.map_or(usual.breakers, |switch| switch == Switch::On),
        },
    })
}

fn authority(url: Option<String>, servers: Vec<String>) -> Result<Option<Authority>, Problem> {
    // They are sent in a header, between quotes.
    let is_plain =
        |url: &str| url.chars().all(|c| c.is_ascii_graphic() && !"\"\\<>@?#".contains(c));
    for url in url.iter().chain(&servers) {
        if !is_address(url) {
            return Err(invalid_url(url));
        }
        if !is_plain(url) {
            return Err(Problem::usage(Code::BadValue, format!("invalid URL `{url}`"))
                .cause("it has a user, a query, a fragment or a character that needs an escape"));
        }
    }
    match (url, servers.is_empty()) {
        (None, true) => Ok(None),
        (Some(public_url), false) => Ok(Some(Authority { public_url, servers })),
        _ => Err(Problem::usage(
            Code::Authority,
            "`public_url` and `authorization_server` go together: where a token is for, and who hands it out",
        )),
    }
}

/// A number, or `off` for none.
fn bound(name: &str, text: Option<&str>) -> Result<Option<u32>, Problem> {
    match text {
        Some("off") => Ok(None),
        text => parse::<Count>(name, text)
            .map(|count| count.map(Count::get))
            .map_err(|problem| problem.hint("`off` is no limit")),
    }
}

fn parse<T: FromStr>(name: &str, text: Option<&str>) -> Result<Option<T>, Problem>
where
    T::Err: std::fmt::Display,
{
    let Some(text) = text else { return Ok(None) };
    text.parse().map(Some).map_err(|e: T::Err| {
        let problem =
            Problem::usage(Code::BadValue, format!("`{name}` cannot be `{text}`")).cause(e);
        if name == "listen" {
            return problem
                .hint("write an address and a port, such as `127.0.0.1:7400` or `[::1]:7400`");
        }
        problem
    })
}
