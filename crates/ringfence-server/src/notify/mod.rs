//! What the operator's other systems are told: alerts, where the ledger stands, and what the parts of each call took.
//! A thread of its own does the telling, so that no call waits for it. What cannot be told is counted and said; the ledger
//! has it all the same.

mod http_post;
mod otlp;
mod resolver;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime};

use ringfence_audit::{CommandSink, FileSink, Sink};
use ringfence_engine::watch::Alert;
use ringfence_engine::{AlertSink, Engine, Trace, TraceSink};
use ringfence_spec::Problem;
use serde::{Deserialize, Serialize};
use serde_json::json;

use http_post::HttpClient;

/// What may wait to be told.
const WAITING_MAX: usize = 4096;

/// Traces go out together, at the latest after this time.
const TRACES_EVERY: Duration = Duration::from_secs(2);

/// So many at once at most.
const TRACES_MAX: usize = 500;

/// How often an alert or an anchor is tried.
const TRIES: u32 = 3;

/// Destinations of alerts, anchors and traces.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Each alert, as one line of JSON.
    pub alerts: Vec<Destination>,
    /// Where the ledger stands, signed, as one line of JSON.
    pub anchors: Vec<Destination>,
    /// How often.
    pub anchor_every: Option<Duration>,
    /// The base of an OpenTelemetry collector's address, without `/v1/traces`.
    pub traces: Option<String>,
}

/// Who takes a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// A file, to which it is appended.
    File(PathBuf),
    /// A command, which finds it on its standard input.
    Command(Vec<String>),
    /// An address, to which it is posted.
    Webhook(String),
}

/// Something to be told.
enum Event {
    Alert(String),
    Trace(Box<Trace>),
    /// There is nothing more.
    End,
}

/// Where calls leave their words. Cheap to clone.
#[derive(Clone)]
struct EventQueue {
    words: SyncSender<Event>,
    n_lost: Arc<AtomicU64>,
}

impl EventQueue {
    fn say(&self, word: Event) {
        if self.words.try_send(word).is_err() {
            self.n_lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends alerts, anchors and traces from a thread of its own. Dropping it ends the thread.
pub struct Notifier {
    settings: Settings,
    mouth: EventQueue,
    words: Option<Receiver<Event>>,
    /// Closed when everything is told.
    told: Option<Receiver<()>>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Teller").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Notifier {
    /// A notifier whose thread is not started yet.
    pub fn new(settings: Settings) -> Self {
        let (words, received) = mpsc::sync_channel(WAITING_MAX);
        let mouth = EventQueue { words, n_lost: Arc::default() };
        Self { settings, mouth, words: Some(received), told: None }
    }

    /// For [`ringfence_engine::Builder::on_alert`], where anybody wants alerts.
    pub fn alert_sink(&self) -> Option<AlertSink> {
        let mouth = self.mouth.clone();
        let wanted = !self.settings.alerts.is_empty();
        wanted.then(|| -> AlertSink { Box::new(move |alert| mouth.say(Event::Alert(line(alert)))) })
    }

    /// For [`ringfence_engine::Builder::on_trace`], where anybody wants traces.
    pub fn trace_sink(&self) -> Option<TraceSink> {
        let mouth = self.mouth.clone();
        let wanted = self.settings.traces.is_some();
        wanted.then(|| -> TraceSink {
            Box::new(move |trace| mouth.say(Event::Trace(Box::new(trace))))
        })
    }

    /// Starts the thread, if there are destinations. The process must not fork any more.
    pub fn start(&mut self, engine: &Engine) -> Result<(), Problem> {
        let settings = self.settings.clone();
        if settings.is_silent() {
            return Ok(());
        }
        let Some(words) = self.words.take() else { return Ok(()) };
        let (n_lost, engine) = (Arc::clone(&self.mouth.n_lost), engine.clone());
        let (done, told) = mpsc::channel();
        let work = move || {
            NotifierThread { settings, http_post: HttpClient::new(), engine, n_lost }.work(&words);
            drop(done);
        };
        let thread = std::thread::Builder::new().name("ringfence-notify".to_owned());
        thread.spawn(work).map_err(|e| {
            Problem::internal("threads", "cannot start the notification thread").cause(e)
        })?;
        self.told = Some(told);
        Ok(())
    }

    /// Tells what is left, within this time.
    pub fn finish(self, most: Duration) {
        if let Some(told) = self.told
            && self.mouth.words.try_send(Event::End).is_ok()
        {
            let _ = told.recv_timeout(most);
        }
    }
}

/// The thread's own.
struct NotifierThread {
    settings: Settings,
    http_post: HttpClient,
    engine: Engine,
    n_lost: Arc<AtomicU64>,
}

impl NotifierThread {
    fn work(self, words: &Receiver<Event>) {
        let mut traces = Vec::new();
        let mut traces_due = None;
        let every = self.settings.anchor_every.filter(|_| !self.settings.anchors.is_empty());
        let mut anchor_due = every.map(|_| Instant::now());
        loop {
            let now = Instant::now();
            if anchor_due.is_some_and(|due| due <= now) {
                self.anchor();
                anchor_due = every.map(|every| Instant::now() + every);
            }
            if traces.len() >= TRACES_MAX || traces_due.is_some_and(|due| due <= now) {
                self.send_traces(&mut traces);
                traces_due = None;
            }
            let due = anchor_due.into_iter().chain(traces_due).min();
            let wait =
                due.map_or(Duration::from_hours(1), |due| due.saturating_duration_since(now));
            match words.recv_timeout(wait) {
                Ok(Event::Alert(line)) => {
                    for to in &self.settings.alerts {
                        self.send_and_log("an alert", to, &line);
                    }
                }
                Ok(Event::Trace(trace)) => {
                    traces.push(*trace);
                    traces_due.get_or_insert_with(|| Instant::now() + TRACES_EVERY);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            let n_lost = self.n_lost.swap(0, Ordering::Relaxed);
            if n_lost > 0 {
                tracing::warn!("{n_lost} alerts and traces came faster than they could be told");
            }
        }
        self.send_traces(&mut traces);
        if every.is_some() {
            self.anchor();
        }
    }

    /// Tells everybody where the ledger stands.
    fn anchor(&self) {
        let Ok(Some(ledger)) = self.engine.recorder().ledger() else { return };
        let anchor = match ledger.anchor() {
            Ok(anchor) => json!(anchor).to_string(),
            Err(problem) => {
                tracing::warn!("the ledger's head cannot be anchored: {problem}");
                return;
            }
        };
        for to in &self.settings.anchors {
            self.send_and_log("where the ledger stands", to, &anchor);
        }
    }

    fn send_traces(&self, traces: &mut Vec<Trace>) {
        let Some(base) = self.settings.traces.as_ref().filter(|_| !traces.is_empty()) else {
            return;
        };
        let url = format!("{}/v1/traces", base.trim_end_matches('/'));
        if let Err(error) = self.http_post.json(&url, &otlp::request(traces).to_string()) {
            tracing::warn!("{} traces could not be told: {error}", traces.len());
        }
        traces.clear();
    }

    fn send_and_log(&self, what: &str, to: &Destination, line: &str) {
        to.insist(&self.http_post, what, line);
    }
}

/// Delivers lines and returns when each is delivered or given up: for a process that does nothing else.
pub fn deliver(to: &[Destination], lines: &[String]) {
    let http_post = HttpClient::new();
    for to in to {
        for line in lines {
            to.insist(&http_post, "an alert", line);
        }
    }
}

impl Destination {
    /// Tells it one line.
    pub fn send(&self, line: &str) -> std::io::Result<()> {
        self.take(&HttpClient::new(), line)
    }

    /// Tries a few times.
    fn insist(&self, http_post: &HttpClient, what: &str, line: &str) {
        let mut wait = Duration::from_millis(200);
        for n_left in (0..TRIES).rev() {
            match self.take(http_post, line) {
                Ok(()) => return,
                Err(error) if n_left == 0 => {
                    tracing::warn!("{what} could not be told to {self}: {error}");
                }
                Err(_) => std::thread::sleep(wait),
            }
            wait *= 4;
        }
    }

    fn take(&self, http_post: &HttpClient, line: &str) -> std::io::Result<()> {
        match self {
            Self::File(path) => FileSink(path.clone()).take(line),
            Self::Command(words) => {
                let nothing = || std::io::Error::other("no program is named");
                let (program, arguments) = words.split_first().ok_or_else(nothing)?;
                CommandSink { program: program.into(), arguments: arguments.to_vec() }.take(line)
            }
            Self::Webhook(url) => http_post.json(url, line),
        }
    }
}

impl Settings {
    fn is_silent(&self) -> bool {
        self.alerts.is_empty() && self.anchors.is_empty() && self.traces.is_none()
    }
}

/// For `serve --check`: one line for each.
impl std::fmt::Display for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for to in &self.alerts {
            writeln!(f, "alerts       to {to}")?;
        }
        for to in &self.anchors {
            let every = self.anchor_every.unwrap_or_default().as_secs();
            writeln!(f, "anchors      every {every} s to {to}")?;
        }
        self.traces.iter().try_for_each(|url| writeln!(f, "traces       to {}", origin(url)))
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Command(words) => write!(f, "the command {}", words.join(" ")),
            // What comes after the host may be a secret.
            Self::Webhook(url) => write!(f, "the webhook {}", origin(url)),
        }
    }
}

/// An address without what only its owner needs to know.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// An alert as others read it.
pub fn line(alert: &Alert) -> String {
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
    json!({
        "type": "ringfence_alert", "at_ms": at_ms, "rule": alert.rule, "subject": alert.subject,
        "message": alert.message, "risk": alert.risk,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhooks_secret_is_not_shown() {
        let word = "hidden";
        let rows = [
            (format!("https://hooks.example/T0/B1/{word}"), "https://hooks.example"),
            (format!("http://ann:{word}@127.0.0.1:80?key={word}"), "http://127.0.0.1:80"),
        ];
        for (url, shown) in rows {
            assert_eq!(Destination::Webhook(url).to_string(), format!("the webhook {shown}"));
        }
    }
}
