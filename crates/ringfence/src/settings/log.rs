//! What a server says of itself while it serves: on stderr, one event a line.

use ringfence_spec::Problem;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// How an event is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For machines: an object a line.
    Json,
}

/// What is said, and how.
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
    /// From here on events are written.
    pub(crate) fn start(self) -> Result<(), Problem> {
        // Libraries speak when something is wrong on our side; a client that errs could fill a disk with it.
        let others = self.level.min(LevelFilter::ERROR);
        let which = Targets::new().with_default(others).with_target("ringfence", self.level);
        let lines = layer().with_writer(std::io::stderr).with_ansi(false).with_target(false);
        let lines = match self.format {
            Format::Text => lines.boxed(),
            Format::Json => lines.json().flatten_event(true).boxed(),
        };
        let started = tracing_subscriber::registry().with(lines.with_filter(which)).try_init();
        started.map_err(|e| Problem::internal("log", "cannot start the log").cause(e))
    }
}
