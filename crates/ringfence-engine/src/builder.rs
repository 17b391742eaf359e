//! Builder of an [`Engine`].

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use ringfence_jail::Launcher;
use ringfence_screen::decide::Rules;
use ringfence_spec::{CommandPreset, Policy, Problem};

use crate::admission::{Admission, AdmissionSettings};
#[cfg(feature = "test-hooks")]
use crate::call::Hook;
use crate::call::{EngineState, PlanHook, Redaction, StageHook};
use crate::clock::{Clock, HostClock};
use crate::code::CodePolicy;
use crate::engine::Engine;
use crate::host_context::HostContext;
use crate::intercept::{AlertSink, Interceptor};
use crate::metrics::Metrics;
use crate::record::Recorder;
use crate::remarks::Remarks;
use crate::runs::Runs;
use crate::search::Embedder;
use crate::sessions::SessionSettings;
use crate::trace::TraceSink;
use crate::vectors::Vectors;

/// Builds an [`Engine`].
pub struct Builder {
    launcher: Option<Launcher>,
    launcher_program: Option<PathBuf>,
    host: Option<HostContext>,
    code: CodePolicy,
    command: Policy,
    recorder: Option<Recorder>,
    admission: AdmissionSettings,
    sessions: SessionSettings,
    embedder: Option<Arc<dyn Embedder>>,
    clock: Arc<dyn Clock>,
    n_parallel: Option<usize>,
    rules: Rules,
    watch: crate::watch::AlertSettings,
    sinks: Vec<AlertSink>,
    traces: Vec<TraceSink>,
    redaction: Redaction,
    code_remarks: Remarks,
    command_remarks: Remarks,
    plan_hook: Option<PlanHook>,
    stage_hook: Option<StageHook>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            launcher: None,
            launcher_program: None,
            host: None,
            code: CodePolicy::default(),
            command: Policy::of_preset(CommandPreset::default(), memory_total_bytes()),
            recorder: None,
            admission: AdmissionSettings::default(),
            sessions: SessionSettings::default(),
            embedder: None,
            clock: Arc::new(HostClock),
            n_parallel: None,
            rules: Rules::default(),
            watch: crate::watch::AlertSettings::default(),
            sinks: Vec::new(),
            traces: Vec::new(),
            redaction: Redaction::default(),
            code_remarks: Remarks::default(),
            command_remarks: Remarks::default(),
            plan_hook: None,
            stage_hook: None,
        }
    }

    /// Sets the caller's environment and directories. [default: those of this process and user]
    #[must_use]
    pub fn host(mut self, host: HostContext) -> Self {
        self.host = Some(host);
        self
    }

    /// Executes this program, by its absolute path, as the launcher: an installed `ringfence` of the same version. A program
    /// whose `main` begins with [`crate::init`] needs none.
    #[must_use]
    pub fn launcher_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.launcher_program = Some(program.into());
        self
    }

    /// Sets the policy of Python runs.
    #[must_use]
    pub fn code_policy(mut self, policy: CodePolicy) -> Self {
        self.code = policy;
        self
    }

    /// Sets the policy of command runs.
    #[must_use]
    pub fn command_policy(mut self, policy: Policy) -> Self {
        self.command = policy;
        self
    }

    /// Sets where calls are recorded. [default: `ledger` in the data directory, as on the command line]
    #[must_use]
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets admission limits. [default: none]
    #[must_use]
    pub fn admission(mut self, settings: AdmissionSettings) -> Self {
        self.admission = settings;
        self
    }

    /// Sets the limits of sessions.
    #[must_use]
    pub fn sessions(mut self, settings: SessionSettings) -> Self {
        self.sessions = settings;
        self
    }

    /// Ranks searches by meaning too, with vectors of this embedder. Files of sessions are given to it. [default: none]
    #[must_use]
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Replaces the host's clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the operator's rules, by tool, path and command.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the thresholds of alerts.
    #[must_use]
    pub fn watch(mut self, settings: crate::watch::AlertSettings) -> Self {
        self.watch = settings;
        self
    }

    /// Adds a sink for alerts, besides ledger and log. Called on the call's thread: it must not block.
    #[must_use]
    pub fn on_alert(mut self, sink: AlertSink) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Adds a sink for the trace of every call that has ended. Called on the call's thread: it must not block.
    #[must_use]
    pub fn on_trace(mut self, sink: TraceSink) -> Self {
        self.traces.push(sink);
        self
    }

    /// Sets the redaction of secrets in answers. The ledger is always redacted.
    #[must_use]
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Sets what the settings have to say about Python runs.
    #[must_use]
    pub fn code_remarks(mut self, remarks: Remarks) -> Self {
        self.code_remarks = remarks;
        self
    }

    /// Sets what the settings have to say about command runs.
    #[must_use]
    pub fn command_remarks(mut self, remarks: Remarks) -> Self {
        self.command_remarks = remarks;
        self
    }

    /// Uses a launcher that was forked before any thread was started.
    #[must_use]
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.launcher = Some(launcher);
        self
    }

    /// Changes the plan of every single run before it is launched: how tests take one layer away.
    #[cfg(feature = "test-hooks")]
    #[must_use]
    pub fn edit_plan(
        mut self,
        edit: impl Fn(&mut ringfence_plan::Plan) -> Result<(), Problem> + Send + Sync + 'static,
    ) -> Self {
        self.plan_hook = Some(Hook(Box::new(edit)));
        self
    }

    /// Calls this at every stage of every run, with the stage and the client: how tests panic there.
    #[cfg(feature = "test-hooks")]
    #[must_use]
    pub fn on_stage(mut self, reached: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        self.stage_hook = Some(Hook(Box::new(reached)));
        self
    }

    /// Sets the number of Python runs that find a warm worker at once. [default: number of processors]
    #[must_use]
    pub fn parallel(mut self, n: usize) -> Self {
        self.n_parallel = Some(n.max(1));
        self
    }

    /// Builds the engine. Ledger, sessions, workers and launcher are opened by the first call that needs them.
    pub fn build(self) -> Result<Engine, Problem> {
        let host = match self.host {
            Some(host) => host,
            None => HostContext::of_user()?,
        };
        let host = host.with_fixed_cwd()?;
        let recorder = self.recorder.unwrap_or_else(|| Recorder::lazy(host.state.join("ledger")));
        // Runs of a service that was killed are shown as interrupted from here on, not as running.
        recorder.recover()?;
        let launcher = self.launcher.map(Arc::new);
        Ok(Engine::new(Arc::new_cyclic(|weak_self| EngineState {
            sessions: OnceLock::new(),
            session_settings: self.sessions,
            vectors: self.embedder.map(Vectors::new),
            warm: Mutex::default(),
            recorder,
            metrics: Metrics::default(),
            interceptor: Interceptor::new(self.rules, self.watch, self.sinks, self.traces),
            redaction: self.redaction,
            code_remarks: self.code_remarks,
            command_remarks: self.command_remarks,
            admission: Admission::new(self.admission, Arc::clone(&self.clock)),
            clock: self.clock,
            code: self.code,
            command: self.command,
            host,
            launcher_program: self.launcher_program,
            n_parallel: self.n_parallel,
            plan_hook: self.plan_hook,
            stage_hook: self.stage_hook,
            runs: Runs::default(),
            sweeper: OnceLock::new(),
            weak_self: weak_self.clone(),
            launcher: launcher.map_or_else(OnceLock::new, OnceLock::from),
        })))
    }
}

pub(crate) fn memory_total_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.mem_unit).max(1).saturating_mul(info.totalram)
}
