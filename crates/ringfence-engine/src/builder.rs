//! How an engine is made.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ringfence_jail::Launcher;
use ringfence_screen::decide::Rules;
use ringfence_spec::{CommandPreset, Policy, Problem};

use crate::admission::{Admission, AdmissionSettings};
use crate::clock::{Clock, HostClock};
use crate::code::CodePolicy;
use crate::engine::Engine;
use crate::intercept::{AlertSink, Interceptor};
use crate::metrics::Metrics;
use crate::place::Place;
use crate::record::Recorder;
use crate::road::Inner;
use crate::sessions::{SessionSettings, Sessions};
use crate::trace::TraceSink;

/// How an engine is made.
pub struct Builder {
    launcher: Launcher,
    place: Place,
    code: CodePolicy,
    command: Policy,
    recorder: Recorder,
    admission: AdmissionSettings,
    sessions: SessionSettings,
    clock: Arc<dyn Clock>,
    n_parallel: usize,
    rules: Rules,
    watch: crate::watch::Settings,
    sinks: Vec<AlertSink>,
    traces: Vec<TraceSink>,
    redact_output: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(launcher: Launcher) -> Self {
        let place = Place {
            environment: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            ..Place::default()
        };
        Self {
            launcher,
            place,
            code: CodePolicy::default(),
            command: Policy::of_preset(CommandPreset::default(), memory_total_bytes()),
            recorder: Recorder::off(),
            admission: AdmissionSettings::default(),
            sessions: SessionSettings::default(),
            clock: Arc::new(HostClock),
            n_parallel: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            rules: Rules::default(),
            watch: crate::watch::Settings::default(),
            sinks: Vec::new(),
            traces: Vec::new(),
            redact_output: false,
        }
    }

    /// Where calls come from; `place.state` holds sessions.
    #[must_use]
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// What Python may be and use.
    #[must_use]
    pub fn code_policy(mut self, policy: CodePolicy) -> Self {
        self.code = policy;
        self
    }

    /// What commands may do.
    #[must_use]
    pub fn command_policy(mut self, policy: Policy) -> Self {
        self.command = policy;
        self
    }

    /// Where calls are written down.
    #[must_use]
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = recorder;
        self
    }

    /// Limits of a service; without them everybody runs.
    #[must_use]
    pub fn admission(mut self, settings: AdmissionSettings) -> Self {
        self.admission = settings;
        self
    }

    /// What sessions are given.
    #[must_use]
    pub fn sessions(mut self, settings: SessionSettings) -> Self {
        self.sessions = settings;
        self
    }

    /// Another clock than the host's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// What the operator allows and refuses, by tool, path and command.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// What counts as out of the ordinary.
    #[must_use]
    pub fn watch(mut self, settings: crate::watch::Settings) -> Self {
        self.watch = settings;
        self
    }

    /// Tells this of every alert, besides the ledger and the log. Called on the call's thread: it must not wait for long.
    #[must_use]
    pub fn on_alert(mut self, sink: AlertSink) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Tells this of every call that has ended, and what its parts took. Called on the call's thread: it must not wait.
    #[must_use]
    pub fn on_trace(mut self, sink: TraceSink) -> Self {
        self.traces.push(sink);
        self
    }

    /// Takes secrets out of answers too; out of the ledger they are always taken.
    #[must_use]
    pub fn redact_output(mut self, redact: bool) -> Self {
        self.redact_output = redact;
        self
    }

    /// How many programs at once shall find a warm worker.
    #[must_use]
    pub fn parallel(mut self, n: usize) -> Self {
        self.n_parallel = n.max(1);
        self
    }

    /// Makes it. Workers are started with the first program that needs one.
    pub fn build(self) -> Result<Engine, Problem> {
        let sessions = Sessions::open(&self.place.state, self.sessions, Arc::clone(&self.clock))?;
        if let Some(ledger) = self.recorder.ledger() {
            // Runs of a service that was killed are shown as interrupted from here on, not as running.
            ledger.recover()?;
        }
        Ok(Engine {
            inner: Arc::new(Inner {
                sessions,
                warm: Mutex::default(),
                recorder: self.recorder,
                metrics: Metrics::default(),
                interceptor: Interceptor::new(self.rules, self.watch, self.sinks, self.traces),
                redact_output: self.redact_output,
                clock: Arc::clone(&self.clock),
                admission: Admission::new(self.admission, self.clock),
                code: self.code,
                command: self.command,
                place: self.place,
                n_parallel: self.n_parallel,
                launcher: Arc::new(self.launcher),
            }),
        })
    }
}

fn memory_total_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.mem_unit).max(1).saturating_mul(info.totalram)
}
