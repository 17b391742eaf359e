//! Watches finished calls for what is out of the ordinary: small rules over recent history, each of which may raise an alert.
//!
//! Pure: time comes with each call, nothing is sent anywhere, nothing is refused. Memory is bounded: a ring for each client,
//! a number of clients, of which the longest silent is forgotten first.

mod alert_rules;
mod ring;
mod settings;

use std::collections::HashMap;

use ringfence_spec::{Risk, Status};
use serde::Serialize;

use ring::Ring;
pub use settings::Settings;

/// A call that has ended, as far as the rules look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCall {
    /// When it ended, in milliseconds of any clock that goes on.
    pub at_ms: u64,
    /// Whose call it was.
    pub client: String,
    /// In which session, if any.
    pub session: Option<String>,
    /// The tool.
    pub tool: String,
    /// How it ended.
    pub status: Status,
    /// How long it took.
    pub duration_ms: u64,
    /// The hash of its code, where it had code.
    pub code_sha256: Option<[u8; 32]>,
    /// Bytes it was given to read.
    pub bytes_read: u64,
    /// Rules it broke.
    pub n_violations: u32,
    /// Whether a path in it tried to leave its place.
    pub traversal: bool,
}

/// Something out of the ordinary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Stable name of the rule, `snake_case`.
    pub rule: &'static str,
    /// Who: a client, or a client and its session.
    pub subject: String,
    /// What happened, in one sentence with its numbers.
    pub message: String,
    /// How much harm it could mean.
    pub risk: Risk,
}

/// Recent history of every client, and the alerts that were raised.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: Settings,
    clients: HashMap<String, Client>,
}

/// What is remembered of one client.
#[derive(Clone, Debug, Default)]
struct Client {
    ring: Ring,
    /// When each rule last raised an alert, by its place among the rules.
    last_alert_ms: [Option<u64>; alert_rules::ALL.len()],
    /// When it was last seen.
    at_ms: u64,
}

impl Watch {
    /// A watch without history.
    pub fn new(settings: Settings) -> Self {
        Self { settings, clients: HashMap::new() }
    }

    /// Takes the next call and says what is out of the ordinary about it. A rule that has raised an alert for a client is
    /// silent about it for the quiet period.
    pub fn see(&mut self, seen: &FinishedCall) -> Vec<Alert> {
        self.make_room(&seen.client);
        let settings = &self.settings;
        let client = self.clients.entry(seen.client.clone()).or_default();
        // A clock that was set back must not make old calls look new.
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

    /// How many clients are remembered.
    pub fn n_clients(&self) -> usize {
        self.clients.len()
    }

    /// Forgets the client that was silent longest, when a new one comes and there is no room.
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
