//! Watches finished calls for anomalies: small rules over recent history, each of which may raise an alert.
//!
//! Pure: each call carries its time; nothing is sent and nothing is refused. Memory is bounded: a ring per client and
//! a maximum number of clients, of which the least recently seen is evicted first.

mod alert_rules;
mod ring;
mod settings;

use std::collections::HashMap;

use ringfence_spec::{Risk, Status};
use serde::Serialize;

use ring::Ring;
pub use settings::AlertSettings;

/// Number of alert rules: one call raises at most as many alerts.
pub const N_ALERT_RULES: usize = alert_rules::ALL.len();

/// The fields of a finished call that the rules read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCall {
    /// End time in milliseconds since 1970, by the engine's clock, which may be set back.
    pub at_ms: u64,
    /// The client that made the call.
    pub client: String,
    /// The session, if any.
    pub session: Option<String>,
    /// The tool.
    pub tool: String,
    /// Final status.
    pub status: Status,
    /// Duration.
    pub duration_ms: u64,
    /// Hash of the code, if the call had code.
    pub code_sha256: Option<[u8; 32]>,
    /// Bytes the call read.
    pub bytes_read: u64,
    /// Number of violations.
    pub n_violations: u32,
    /// Number of connections that carried a secret's placeholder to another host.
    pub n_misplaced_secrets: u32,
    /// True if a path in the call tried to leave its root.
    pub traversal: bool,
}

/// An anomaly found by a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Stable rule name, `snake_case`.
    pub rule: &'static str,
    /// The client, or the client and its session.
    pub subject: String,
    /// One sentence that describes the anomaly, with its numbers.
    pub message: String,
    /// Severity.
    pub risk: Risk,
}

/// Recent history of every client, and the time of each rule's last alert.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: AlertSettings,
    clients: HashMap<String, Client>,
}

/// History of one client.
#[derive(Clone, Debug, Default)]
struct Client {
    ring: Ring,
    /// Time of each rule's last alert, by index into the rules.
    last_alert_ms: [Option<u64>; N_ALERT_RULES],
    /// Time of the client's last call.
    at_ms: u64,
}

impl Watch {
    /// Creates a watch without history.
    pub fn new(settings: AlertSettings) -> Self {
        Self { settings, clients: HashMap::new() }
    }

    /// Adds a call to the history and returns its alerts. A rule that has raised an alert for a client raises no other
    /// for that client during the quiet period.
    pub fn see(&mut self, seen: &FinishedCall) -> Vec<Alert> {
        self.make_room(&seen.client);
        let settings = &self.settings;
        let client = self.clients.entry(seen.client.clone()).or_default();
        // A clock that was set back must not make old calls look recent.
        let at_ms = seen.at_ms.max(client.at_ms);
        client.at_ms = at_ms;
        let mut alerts = Vec::new();
        for (place, rule) in alert_rules::ALL.iter().enumerate() {
            let Some(message) = (rule.look)(seen, at_ms, &client.ring, settings) else { continue };
            let last = &mut client.last_alert_ms[place];
            if last.is_some_and(|last| at_ms - last < settings.quiet_ms) {
                continue;
            }
            *last = Some(at_ms);
            alerts.push(Alert {
                rule: rule.name,
                subject: subject(seen),
                message,
                risk: rule.risk,
            });
        }
        client.ring.push(seen, at_ms, settings.n_remembered_max);
        alerts
    }

    /// Number of clients in the history.
    pub fn n_clients(&self) -> usize {
        self.clients.len()
    }

    /// Evicts the least recently seen client if `client` is new and the table is full.
    fn make_room(&mut self, client: &str) {
        if self.clients.contains_key(client)
            || self.clients.len() < self.settings.n_clients_max.max(1)
        {
            return;
        }
        let silent = self.clients.iter().min_by_key(|(name, client)| (client.at_ms, *name));
        if let Some(name) = silent.map(|(name, _)| name.clone()) {
            self.clients.remove(&name);
        }
    }
}

fn subject(seen: &FinishedCall) -> String {
    match &seen.session {
        Some(session) => format!("client {} in session {session}", seen.client),
        None => format!("client {}", seen.client),
    }
}
