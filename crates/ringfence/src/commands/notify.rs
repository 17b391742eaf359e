//! Delivers alerts of command-line runs after the run's end, in a separate process: a run's exit never waits for a
//! webhook.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use ringfence_engine::watch::Alert;
use ringfence_server::notify::{self, Destination};
use serde::{Deserialize, Serialize};

use crate::cli::PolicyFlags;
use crate::present;
use crate::settings::{Surroundings, notify};

/// This process's executable, even if its file was replaced or removed.
const SELF: &str = "/proc/self/exe";

/// Maximum size of a delivery: more than the alerts of a batch.
const BYTES_MAX: u64 = 1 << 20;

/// Standard input of the delivering process.
#[derive(Debug, Serialize, Deserialize)]
struct Delivery {
    to: Vec<Destination>,
    lines: Vec<String>,
}

/// Starts a process that delivers alerts, if any, to the operator's destinations. Does not wait for it.
pub(crate) fn later(alerts: &[Alert], flags: &PolicyFlags) {
    if alerts.is_empty() {
        return;
    }
    let settings = Surroundings::real(false).and_then(|around| notify(flags, &around));
    let to = match settings {
        Ok(settings) if settings.others.alerts.is_empty() => return,
        Ok(settings) => settings.others.alerts,
        Err(problem) => {
            present::note(&format!("an alert was not delivered: {problem}"));
            return;
        }
    };
    let delivery = Delivery { to, lines: alerts.iter().map(notify::line).collect() };
    if let Err(error) = start(&delivery) {
        present::note(&format!("an alert was not delivered: {error}"));
    }
}

fn start(delivery: &Delivery) -> std::io::Result<()> {
    let text = serde_json::to_string(delivery)?;
    let mut child = Command::new(SELF)
        .arg0("ringfence")
        .arg("notify")
        // Signals to our process group are not meant for the child.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // The text fits a pipe's buffer, or the child is reading: neither blocks for long.
    child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes()))
}

/// `ringfence notify`: delivers the alerts on its standard input.
pub(crate) fn deliver() -> ExitCode {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(BYTES_MAX).read_to_string(&mut text);
    let delivery = read.ok().and_then(|_| serde_json::from_str::<Delivery>(&text).ok());
    let Some(delivery) = delivery else { return ExitCode::FAILURE };
    notify::deliver(&delivery.to, &delivery.lines);
    ExitCode::SUCCESS
}
