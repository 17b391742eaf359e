//! Log of a server: on stderr, one event per line.

use ringfence_spec::{Code, Problem};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Format of log events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Level and format of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    pub(crate) level: LevelFilter,
    pub(crate) format: Format,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: LevelFilter::WARN, format: Format::default() }
    }
}

impl Log {
    /// Installs the log.
    pub(crate) fn start(self) -> Result<(), Problem> {
        // Libraries log errors only: at lower levels, a misbehaving client could fill a disk.
        let others = self.level.min(LevelFilter::ERROR);
        let which = Targets::new().with_default(others).with_target("ringfence", self.level);
        let lines = layer().with_writer(std::io::stderr).with_ansi(false).with_target(false);
        let lines = match self.format {
            Format::Text => lines.boxed(),
            Format::Json => lines.json().flatten_event(true).boxed(),
        };
        let started = tracing_subscriber::registry().with(lines.with_filter(which)).try_init();
        started.map_err(|e| Problem::internal(Code::Log, "cannot start the log").cause(e))
    }
}
