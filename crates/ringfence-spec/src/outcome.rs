//! The result of one run: the same object from every interface. Fields that do not apply are null, never missing.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{Code, Connection, DenialRule, Face, Hint};
use crate::{Enforcement, Problem, ProblemKind, Risk, RunId};

/// Final status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Exit 0.
    Ok,
    /// The program ended non-zero or raised.
    Error,
    /// Screening or policy refused it; it did not run.
    Blocked,
    /// Wall or CPU deadline.
    Timeout,
    /// A memory limit.
    Memory,
    /// Another limit or a signal; `error.code` names it.
    Killed,
    /// Admission refused it.
    Rejected,
    /// An internal error.
    Failed,
}

impl From<ProblemKind> for Status {
    /// Status of a call that did not start.
    fn from(kind: ProblemKind) -> Self {
        match kind {
            ProblemKind::Usage | ProblemKind::NotFound => Self::Error,
            ProblemKind::Refused => Self::Blocked,
            ProblemKind::Interrupted(_) => Self::Killed,
            ProblemKind::CannotBuild | ProblemKind::Internal => Self::Failed,
        }
    }
}

impl Status {
    /// The contract's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Blocked => "blocked",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Killed => "killed",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
        }
    }
}

/// Tells whether any of the program's instructions ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// It did.
    Yes,
    /// It did not.
    No,
    /// It cannot be known.
    Unknown,
}

/// One of the eight layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// 1: before anything runs.
    Screen,
    /// 2: the process tree.
    Process,
    /// 3: system calls.
    Syscalls,
    /// 4: resources.
    Resources,
    /// 5: network.
    Network,
    /// 6: files.
    Filesystem,
    /// 7: output.
    Output,
    /// 8: audit.
    Audit,
}

/// The observer of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// The kernel or the supervisor: proof.
    Host,
    /// The guest's own runtime: useful, not proof.
    Guest,
}

/// One refused and observed action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The layer that refused.
    pub layer: Layer,
    /// The rule.
    pub rule: DenialRule,
    /// The attempted action, in one phrase.
    pub subject: String,
    /// Source line, for screening.
    pub line: Option<u32>,
    /// Source column, for screening.
    pub column: Option<u32>,
    /// An alternative for the agent, true for this very call.
    pub hint: Hint,
    /// The observer.
    pub by: DeniedBy,
    /// The system call, if one was refused.
    pub syscall: Option<String>,
    /// The value of the argument that mattered.
    pub argument: Option<String>,
    /// The process, numbered as the host sees it.
    pub pid: Option<u32>,
    /// The program's name.
    pub program: Option<String>,
    /// Number of times the same denial was seen.
    pub count: u64,
}

impl Denial {
    /// A refusal that the host saw once, of no line, system call or process in particular.
    pub fn new(layer: Layer, rule: DenialRule, subject: String, hint: Hint) -> Self {
        Self {
            layer,
            rule,
            subject,
            line: None,
            column: None,
            hint,
            by: DeniedBy::Host,
            syscall: None,
            argument: None,
            pid: None,
            program: None,
            count: 1,
        }
    }
}

/// Something in a program that a tighter screening preset would have refused. It was noted, not refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule.
    pub rule: DenialRule,
    /// The name, module or construct.
    pub subject: String,
    /// Source line, from 1.
    pub line: u32,
    /// Its risk.
    pub risk: Risk,
}

/// Amount of output that was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Truncated {
    /// True if stdout lost bytes.
    pub stdout: bool,
    /// True if stderr lost bytes.
    pub stderr: bool,
    /// Number of bytes lost in both.
    pub dropped_bytes: u64,
}

/// Encoding of `stdout` and `stderr` in the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// Text.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Both streams are base64, because one of them is not text.
    #[serde(rename = "base64")]
    Base64,
}

/// A file a run left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// Path below the run's directory.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its media type.
    pub media_type: String,
}

/// Changes in the workspace that the operator should review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkspaceChanges {
    /// Protected names that appeared during the run.
    pub protected_created: Vec<String>,
    /// Repositories that were renamed after the run, because the host's git would have obeyed them.
    pub set_aside: Vec<SetAside>,
}

/// Something that was renamed after a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetAside {
    /// Its path before.
    pub path: String,
    /// Its path now.
    pub moved_to: String,
    /// The reason, in one phrase.
    pub reason: String,
}

/// A Python exception.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exception {
    /// Its class.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its message.
    pub message: String,
    /// The line of the user's code.
    pub line: Option<u32>,
}

/// Resource usage of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// From the start of the program to the death of its tree.
    pub wall_ms: f64,
    /// CPU time of the whole tree.
    pub cpu_ms: f64,
    /// The highest memory use: of the tree where a cgroup counts it or a watch ended it for its memory, else of its
    /// largest process.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes the program wrote to stdout, null if they were passed through.
    pub stdout_bytes: Option<u64>,
    /// Bytes the program wrote to stderr.
    pub stderr_bytes: Option<u64>,
}

/// Availability of a warm worker at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// It was.
    Warm,
    /// The worker was made for this run, or packages that the others have loaded were still being loaded.
    Cold,
}

/// Reason that a run did not end well, with a stable code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorInfo {
    /// Stable code.
    pub code: Code,
    /// One sentence.
    pub message: String,
    /// A way out, if there is one that is true for this call.
    pub hint: Option<Hint>,
    /// Time to wait before a retry, for rejected runs.
    pub retry_after_ms: Option<u64>,
}

impl From<&Problem> for ErrorInfo {
    fn from(problem: &Problem) -> Self {
        Self {
            code: problem.code,
            message: match &problem.cause {
                Some(cause) => format!("{}: {cause}", problem.message),
                None => problem.message.clone(),
            },
            hint: problem.hint.clone(),
            retry_after_ms: problem.retry_after_ms.map(|ms| ms.get().into()),
        }
    }
}

/// The outcome of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Unguessable, names this run everywhere.
    pub run_id: RunId,
    /// The session it belonged to.
    pub session_id: Option<String>,
    /// Final status.
    pub status: Status,
    /// Tells whether it ran.
    pub ran: Ran,
    /// The program's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// Captured standard output.
    pub stdout: String,
    /// Captured standard error.
    pub stderr: String,
    /// Python: repr of a final expression.
    pub value: Option<String>,
    /// Python: the exception raised.
    pub exception: Option<Exception>,
    /// Amount of output that was dropped.
    pub truncated: Truncated,
    /// Encoding of both streams.
    pub encoding: Encoding,
    /// Files left behind.
    pub artifacts: Vec<Artifact>,
    /// Protected names touched.
    pub workspace: WorkspaceChanges,
    /// Refused actions.
    pub denials: Vec<Denial>,
    /// Connections made and refused.
    pub connections: Vec<Connection>,
    /// Findings of screening that were not refused.
    pub findings: Vec<Finding>,
    /// Remarks on how the call was run, such as a requested time above the operator's limit.
    pub notes: Vec<String>,
    /// Kinds of refusal the kernel gives no channel for.
    pub unobserved: Vec<String>,
    /// The layers enforced; null if nothing was started.
    pub enforcement: Option<Enforcement>,
    /// Resource usage.
    pub usage: Usage,
    /// Warm or cold.
    pub start: Option<Start>,
    /// The error, if it did not end well.
    pub error: Option<ErrorInfo>,
}

impl Outcome {
    /// Words every way out for a reader.
    pub fn word_for(&mut self, face: Face) {
        self.hints().for_each(|hint| hint.word_for(face));
    }

    /// Returns it with every way out worded for a reader: itself, if all hold for every reader.
    pub fn worded_for(&self, face: Face) -> Cow<'_, Self> {
        let error = self.error.iter().filter_map(|error| error.hint.as_ref());
        let mut hints = error.chain(self.denials.iter().map(|denial| &denial.hint));
        if hints.all(|hint| matches!(hint, Hint::Text(_))) {
            return Cow::Borrowed(self);
        }
        let mut worded = self.clone();
        worded.word_for(face);
        Cow::Owned(worded)
    }

    /// Replaces a way out by another.
    pub fn replace_hints(&mut self, old: &Hint, new: &Hint) {
        self.hints().filter(|hint| *hint == old).for_each(|hint| hint.clone_from(new));
    }

    fn hints(&mut self) -> impl Iterator<Item = &mut Hint> {
        let error = self.error.iter_mut().filter_map(|error| error.hint.as_mut());
        error.chain(self.denials.iter_mut().map(|denial| &mut denial.hint))
    }

    /// The outcome of a run that never started. Of one whose supervisor died it cannot be known.
    pub fn not_started(run_id: RunId, status: Status, problem: &Problem) -> Self {
        Self {
            run_id,
            session_id: None,
            status,
            ran: if problem.code == Code::SupervisorDied { Ran::Unknown } else { Ran::No },
            exit_code: None,
            signal: None,
            stdout: String::new(),
            stderr: String::new(),
            value: None,
            exception: None,
            truncated: Truncated::default(),
            encoding: Encoding::default(),
            artifacts: Vec::new(),
            workspace: WorkspaceChanges::default(),
            denials: Vec::new(),
            connections: Vec::new(),
            findings: Vec::new(),
            notes: Vec::new(),
            unobserved: Vec::new(),
            enforcement: None,
            usage: Usage::default(),
            start: None,
            error: Some(problem.into()),
        }
    }
}
