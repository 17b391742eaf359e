//! Checks a call against the operator's rules and rates its risk before it runs; checks it for anomalies afterwards.
//! Every call of every front end passes here, but the security boundary is the jail.

use std::sync::{Mutex, PoisonError};

use ringfence_audit::Entry;
use ringfence_screen::decide::{self, Call, Rules};
use ringfence_screen::{ScreenVerdict, shell};
use ringfence_spec::{Code, Problem, Risk, Status};

use crate::record::Recorder;
use crate::trace::{Trace, TraceSink};
use crate::watch::{Alert, AlertSettings, FinishedCall, Watch};

/// Names of the calls that rules are asked about. A command is `run_command` and a program `execute_code`, however they
/// are started.
pub const TOOLS: [&str; 14] = [
    "chunk",
    "delete_file",
    "edit_file",
    "execute_code",
    "grep",
    "index",
    "list_dir",
    "move_file",
    "read_file",
    "run_command",
    "search",
    "session",
    "stat_file",
    "write_file",
];

/// Receives alerts, besides the ledger.
pub type AlertSink = Box<dyn Fn(&Alert) + Send + Sync>;

/// Rules, risk rating, anomaly watch and sinks.
pub(crate) struct Interceptor {
    rules: Rules,
    watch: Mutex<Watch>,
    sinks: Vec<AlertSink>,
    traces: Vec<TraceSink>,
}

impl std::fmt::Debug for Interceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interceptor").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// The part of a call that rules apply to.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// Code and its screening verdict.
    Code(ScreenVerdict),
    /// A command and the directory its relative paths start in.
    Command { argv: Vec<String>, cwd: String },
    /// Paths.
    Paths(Vec<String>),
    /// No subject for the rules.
    Nothing,
}

/// Decision on a call.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) risk: Risk,
    /// Reason for the ledger.
    pub(crate) words: String,
    /// Set if the call must not run.
    pub(crate) refusal: Option<Problem>,
    /// True if a path in the call has a `..` component.
    pub(crate) traversal: bool,
}

impl Interceptor {
    pub(crate) fn new(
        rules: Rules,
        watch: AlertSettings,
        sinks: Vec<AlertSink>,
        traces: Vec<TraceSink>,
    ) -> Self {
        Self { rules, watch: Mutex::new(Watch::new(watch)), sinks, traces }
    }

    /// Returns true if no rules are configured, so that every call is allowed.
    pub(crate) fn has_no_rules(&self) -> bool {
        self.rules == Rules::default()
    }

    /// Decides whether a call may run, and rates its risk.
    pub(crate) fn judge(&self, tool: &str, about: &Subject) -> Inspection {
        debug_assert!(TOOLS.contains(&tool), "a rule about `{tool}` would be refused");
        let shape = match about {
            Subject::Command { argv, .. } => Some(shell::shape_of_argv(argv)),
            _ => None,
        };
        let paths: Vec<&str> = match about {
            Subject::Paths(paths) => paths.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        let cwd = match about {
            Subject::Command { cwd, .. } => cwd,
            _ => ringfence_plan::WORKSPACE,
        };
        let call = Call { tool, paths: &paths, shape: shape.as_ref(), cwd, ..Call::default() };
        let code = match about {
            Subject::Code(verdict) => Some(verdict),
            _ => None,
        };
        let rated = decide::risk(&call, code);
        let (words, refusal) = match self.rules.decide(&call) {
            decide::RuleVerdict::Allowed => (rated.why, None),
            decide::RuleVerdict::Denied { rule, reason, hint } => {
                let message = format!("the operator's rule `{rule}` refuses this call: {reason}");
                let problem = Problem::refused(Code::Rule, message.clone());
                let problem = if hint.is_empty() { problem } else { problem.hint(hint) };
                (message, Some(problem))
            }
        };
        let traversal = paths.iter().any(|path| path.split('/').any(|part| part == ".."));
        Inspection { risk: rated.risk, words, refusal, traversal }
    }

    /// Sends a finished call's trace to every trace sink.
    pub(crate) fn trace(&self, trace: impl FnOnce() -> Trace) {
        let [others @ .., last] = &self.traces[..] else { return };
        let trace = trace();
        for sink in others {
            sink(trace.clone());
        }
        last(trace);
    }

    /// Checks a finished call for anomalies; logs and records each alert and sends it to every alert sink.
    pub(crate) fn notice(&self, recorder: &Recorder, seen: &FinishedCall) {
        let alerts = self.watch.lock().unwrap_or_else(PoisonError::into_inner).see(seen);
        for alert in &alerts {
            tracing::warn!(rule = alert.rule, subject = %alert.subject, "{}", alert.message);
            let entry = Entry::alert(alert.rule, &alert.message).client(&seen.client);
            let entry = entry.risk(alert.risk);
            let entry = match &seen.session {
                Some(session) => entry.session(session),
                None => entry,
            };
            // The call itself is already recorded. An alert that cannot be recorded is still sent.
            if let Err(problem) = recorder.note(&entry) {
                tracing::warn!("cannot record an alert: {problem}");
            }
            for sink in &self.sinks {
                sink(alert);
            }
        }
    }
}

impl Inspection {
    /// Refuses a call that could not be judged.
    pub(crate) fn refused(words: &str, problem: Problem) -> Self {
        Self { risk: Risk::High, words: words.to_owned(), refusal: Some(problem), traversal: false }
    }

    /// Adds risk and verdict to a ledger entry.
    pub(crate) fn noted(&self, entry: Entry) -> Entry {
        let entry = entry.risk(self.risk);
        if self.words.is_empty() { entry } else { entry.verdict(&self.words) }
    }
}

/// Builds the watch's record of a call before it runs; status and duration are filled in later.
pub(crate) fn seen(tool: &str, entry: &Entry, judged: &Inspection) -> FinishedCall {
    FinishedCall {
        at_ms: 0,
        client: entry.client.clone().unwrap_or_default(),
        session: entry.session.clone(),
        tool: tool.to_owned(),
        status: Status::Ok,
        duration_ms: 0,
        code_sha256: entry.details.code_sha256.map(|digest| *digest.bytes()),
        bytes_read: 0,
        n_violations: 0,
        n_misplaced_secrets: 0,
        traversal: judged.traversal,
    }
}

/// Maps the result of a call without an outcome to a status, for the watch.
pub(crate) fn status_of(done: Result<(), &Problem>) -> Status {
    match done {
        Ok(()) => Status::Ok,
        Err(problem) if problem.kind == ringfence_spec::ProblemKind::Internal => Status::Failed,
        Err(problem) if problem.kind == ringfence_spec::ProblemKind::Refused => Status::Blocked,
        Err(_) => Status::Error,
    }
}
