//! Sends alerts, ledger anchors and call traces to the operator's systems. A thread of its own does the sending, so
//! that no call waits for it. Events that cannot be sent are counted and logged; the ledger records them regardless.

pub(crate) mod http_post;
mod otlp;
mod resolver;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime};

use ringfence_audit::{CommandSink, FileSink, Ledger, Sink};
use ringfence_engine::watch::Alert;
use ringfence_engine::{AlertSink, Engine, Trace, TraceSink};
use ringfence_spec::{Code, Problem};
use serde::{Deserialize, Serialize};
use serde_json::json;

use http_post::HttpClient;

/// Maximum number of queued events.
const WAITING_MAX: usize = 4096;

/// Maximum delay before a batch of traces is sent.
const TRACES_EVERY: Duration = Duration::from_secs(2);

/// Maximum number of traces in a batch.
const TRACES_MAX: usize = 500;

/// Delivery attempts for an alert or an anchor.
const TRIES: u32 = 3;

/// Destinations of alerts, anchors and traces.
#[derive(Clone, Debug, Default)]
pub struct NotifySettings {
    /// Destinations of alerts, each sent as one line of JSON.
    pub alerts: Vec<Destination>,
    /// Destinations of the ledger's signed head, sent as one line of JSON.
    pub anchors: Vec<Destination>,
    /// Interval between anchors.
    pub anchor_every: Option<Duration>,
    /// Base URL of an OpenTelemetry collector, without `/v1/traces`.
    pub traces: Option<String>,
}

/// Destination of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// File to append the line to.
    File(PathBuf),
    /// Command that reads the line on its standard input.
    Command(Vec<String>),
    /// URL to post the line to.
    Webhook(String),
}

/// Entry of the event queue.
enum Event {
    Alert(String),
    Trace(Box<Trace>),
    /// Ends the notifier thread.
    End,
}

/// Sending side of the event queue. Cheap to clone.
#[derive(Clone)]
struct EventQueue {
    events: SyncSender<Event>,
    n_lost: Arc<AtomicU64>,
}

impl EventQueue {
    fn push(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.n_lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends alerts, anchors and traces from a thread of its own. [`Notifier::finish`] ends the thread; a drop does not
/// while the engine holds a sink, because a sink keeps the event queue open.
pub struct Notifier {
    settings: NotifySettings,
    queue: EventQueue,
    events: Option<Receiver<Event>>,
    /// Disconnected once the thread has sent everything.
    finished: Option<Receiver<()>>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Notifier {
    /// Creates a notifier without starting its thread.
    pub fn new(settings: NotifySettings) -> Self {
        let (events, received) = mpsc::sync_channel(WAITING_MAX);
        let queue = EventQueue { events, n_lost: Arc::default() };
        Self { settings, queue, events: Some(received), finished: None }
    }

    /// Sink for [`ringfence_engine::Builder::on_alert`], if alerts have a destination.
    pub fn alert_sink(&self) -> Option<AlertSink> {
        let queue = self.queue.clone();
        let wanted = !self.settings.alerts.is_empty();
        wanted
            .then(|| -> AlertSink { Box::new(move |alert| queue.push(Event::Alert(line(alert)))) })
    }

    /// Sink for [`ringfence_engine::Builder::on_trace`], if traces have a destination.
    pub fn trace_sink(&self) -> Option<TraceSink> {
        let queue = self.queue.clone();
        let wanted = self.settings.traces.is_some();
        wanted.then(|| -> TraceSink {
            Box::new(move |trace| queue.push(Event::Trace(Box::new(trace))))
        })
    }

    /// Starts the thread if there are destinations. The process must not fork afterwards.
    pub fn start(&mut self, engine: &Engine) -> Result<(), Problem> {
        let settings = self.settings.clone();
        if settings.has_no_destination() {
            return Ok(());
        }
        let Some(events) = self.events.take() else { return Ok(()) };
        let (n_lost, engine) = (Arc::clone(&self.queue.n_lost), engine.clone());
        let (done, finished) = mpsc::channel();
        let work = move || {
            NotifierThread { settings, http_post: HttpClient::new(), engine, n_lost }.work(&events);
            drop(done);
        };
        let thread = std::thread::Builder::new().name("ringfence-notify".to_owned());
        thread.spawn(work).map_err(|e| {
            Problem::internal(Code::Threads, "cannot start the notification thread").cause(e)
        })?;
        self.finished = Some(finished);
        Ok(())
    }

    /// Sends the queued events and ends the thread. Waits at most `most` for it.
    pub fn finish(self, most: Duration) {
        if let Some(finished) = self.finished
            && self.queue.events.try_send(Event::End).is_ok()
        {
            let _ = finished.recv_timeout(most);
        }
    }
}

/// State of the notifier thread.
struct NotifierThread {
    settings: NotifySettings,
    http_post: HttpClient,
    engine: Engine,
    n_lost: Arc<AtomicU64>,
}

impl NotifierThread {
    fn work(self, events: &Receiver<Event>) {
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
            match events.recv_timeout(wait) {
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
                tracing::warn!("dropped {n_lost} alerts and traces: the queue is full");
            }
        }
        self.send_traces(&mut traces);
        if every.is_some() {
            self.anchor();
        }
    }

    /// Sends the signed head of the ledger to every anchor destination.
    fn anchor(&self) {
        let ledger = match self.engine.recorder().ledger() {
            Ok(Some(ledger)) => Ok(ledger),
            Ok(None) => return,
            Err(problem) => Err(problem),
        };
        let anchor = match ledger.and_then(Ledger::anchor) {
            Ok(anchor) => json!(anchor).to_string(),
            Err(problem) => {
                tracing::warn!("cannot make an anchor of the ledger: {problem}");
                return;
            }
        };
        for to in &self.settings.anchors {
            self.send_and_log("the ledger's anchor", to, &anchor);
        }
    }

    fn send_traces(&self, traces: &mut Vec<Trace>) {
        let Some(base) = self.settings.traces.as_ref().filter(|_| !traces.is_empty()) else {
            return;
        };
        let url = format!("{}/v1/traces", base.trim_end_matches('/'));
        if let Err(error) = self.http_post.post_json(&url, None, &otlp::request(traces).to_string())
        {
            tracing::warn!("cannot send {} traces to {url}: {error}", traces.len());
        }
        traces.clear();
    }

    fn send_and_log(&self, what: &str, to: &Destination, line: &str) {
        to.send_with_retries(&self.http_post, what, line);
    }
}

/// Sends lines and returns when each is delivered or given up: for a process that does nothing else.
pub fn deliver(to: &[Destination], lines: &[String]) {
    let http_post = HttpClient::new();
    for to in to {
        for line in lines {
            to.send_with_retries(&http_post, "an alert", line);
        }
    }
}

impl Destination {
    /// Sends one line, without retries.
    pub fn send(&self, line: &str) -> std::io::Result<()> {
        self.send_once(&HttpClient::new(), line)
    }

    /// Sends one line with retries, and logs the error of the last attempt.
    fn send_with_retries(&self, http_post: &HttpClient, what: &str, line: &str) {
        let mut wait = Duration::from_millis(200);
        for n_left in (0..TRIES).rev() {
            match self.send_once(http_post, line) {
                Ok(()) => return,
                Err(error) if n_left == 0 => {
                    tracing::warn!("cannot send {what} to {self}: {error}");
                }
                Err(_) => std::thread::sleep(wait),
            }
            wait *= 4;
        }
    }

    fn send_once(&self, http_post: &HttpClient, line: &str) -> std::io::Result<()> {
        match self {
            Self::File(path) => FileSink(path.clone()).take(line),
            Self::Command(words) => {
                let nothing = || std::io::Error::other("no program is named");
                let (program, arguments) = words.split_first().ok_or_else(nothing)?;
                CommandSink { program: program.into(), arguments: arguments.to_vec() }.take(line)
            }
            Self::Webhook(url) => http_post.post_json(url, None, line).map(drop),
        }
    }
}

impl NotifySettings {
    fn has_no_destination(&self) -> bool {
        self.alerts.is_empty() && self.anchors.is_empty() && self.traces.is_none()
    }
}

/// Summary for `serve --check`: one line per destination.
impl std::fmt::Display for NotifySettings {
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
            // The path and query may contain a secret.
            Self::Webhook(url) => write!(f, "the webhook {}", origin(url)),
        }
    }
}

/// Scheme, host and port of a URL, without credentials, path and query.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// Formats an alert as one line of JSON.
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
