//! Entries that a caller records: one when a run or call starts, and one derived from it when it ends. Holds values
//! only; the ledger redacts, bounds and writes them.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_spec::{Connection, ConnectionVerdict, Denial, Encoding, Finding, Outcome, RunId};
use serde::{Deserialize, Serialize};

use crate::columns::{Kind, Risk, RunStatus};
use crate::digest::Digest;
use crate::redact::{Redactor, redact_and_cut};

/// Characters kept of a result.
pub const RESULT_CHARS_MAX: usize = 1000;
/// Characters kept of every other text: an argument summary is for reading, not for replay.
const TEXT_CHARS_MAX: usize = 500;
/// Characters kept of a session, client or tool name.
const NAME_CHARS_MAX: usize = 128;
/// Tool of the rows about connections.
const NETWORK_TOOL: &str = "network";
/// Violations, findings and writes kept; `violations_total` and `writes_total` count all.
const LIST_MAX: usize = 100;

/// One row to append.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Kind of row.
    pub kind: Kind,
    /// The run or call.
    pub run_id: Option<RunId>,
    /// The session it belongs to.
    pub session: Option<String>,
    /// The client that asked.
    pub client: Option<String>,
    /// The tool or subcommand.
    pub tool: Option<String>,
    /// Final status; `None` while it runs.
    pub status: Option<RunStatus>,
    /// Potential harm of the run or call.
    pub risk: Option<Risk>,
    /// The body.
    pub details: Details,
}

/// The body of a row. Fields that do not apply are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// Summary of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// SHA-256 of the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_sha256: Option<Digest>,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_bytes: Option<u64>,
    /// Verdict of screening and policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Reason for the ending, or the subject of an alert or session event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The stable code of that reason, of an alert's rule, or of a session event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The program's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Wall-clock time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<f64>,
    /// CPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// Its highest memory use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// The size of the result: both streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// The first [`RESULT_CHARS_MAX`] characters of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_head: Option<String>,
    /// Files that were written, with the hash of their content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Write>,
    /// Number of writes, including those left out of the list.
    #[serde(skip_serializing_if = "is_zero")]
    pub writes_total: u64,
    /// Refused actions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// Number of refusals, including those left out of the list.
    #[serde(skip_serializing_if = "is_zero")]
    pub violations_total: u64,
    /// Findings of screening that were not refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// SHA-256 of the plan that was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_sha256: Option<Digest>,
    /// A connection of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Box<Connection>>,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Path of the file.
    pub path: String,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
}

/// A refused action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The layer that refused.
    pub layer: String,
    /// Stable name of the rule.
    pub rule: String,
    /// The object of the attempt.
    pub subject: String,
    /// Number of attempts.
    pub count: u64,
}

impl Entry {
    /// A run that is about to start.
    pub fn run_start(run_id: RunId) -> Self {
        Self::of(Kind::RunStart, Some(run_id))
    }

    /// A tool call that is about to be served.
    pub fn call_start(run_id: RunId) -> Self {
        Self::of(Kind::CallStart, Some(run_id))
    }

    /// A session event: `created`, `forked`, `closed`.
    pub fn session_event(session: impl Into<String>, event: impl Into<String>) -> Self {
        let mut entry = Self::of(Kind::Session, None).session(session);
        entry.details.code = Some(event.into());
        entry
    }

    /// An alert: the name of its rule and one sentence.
    pub fn alert(rule: impl Into<String>, sentence: impl Into<String>) -> Self {
        let mut entry = Self::of(Kind::Alert, None);
        entry.details.code = Some(rule.into());
        entry.details.reason = Some(sentence.into());
        entry
    }

    /// A connection of the run that `self` started.
    #[must_use]
    pub fn connection(&self, run_id: RunId, connection: &Connection) -> Self {
        let mut entry = Self::of(Kind::Connection, Some(run_id)).tool(NETWORK_TOOL);
        (entry.session, entry.client) = (self.session.clone(), self.client.clone());
        entry.status = Some(match connection.verdict {
            ConnectionVerdict::Allowed => RunStatus::Ok,
            ConnectionVerdict::Denied => RunStatus::Blocked,
            ConnectionVerdict::Failed => RunStatus::Error,
        });
        entry.details.arguments = Some(match connection.port {
            Some(port) => format!("connect {}:{port}", connection.host),
            None => format!("lookup {}", connection.host),
        });
        entry.details.verdict.clone_from(&connection.rule);
        entry.details.reason.clone_from(&connection.reason);
        entry.details.wall_ms = Some(connection.duration_ms);
        entry.details.result_bytes = Some(connection.received_bytes);
        entry.details.connection = Some(Box::new(connection.clone()));
        entry
    }

    /// The end of the run or call that `self` started. It repeats client, tool and arguments, so it can be read alone.
    #[must_use]
    pub fn ended(&self, outcome: &Outcome) -> Self {
        let mut end = self.clone();
        end.at_ms = now_ms();
        end.kind = self.kind.ended();
        end.run_id = Some(outcome.run_id);
        end.session = self.session.clone().or_else(|| outcome.session_id.clone());
        end.status = Some(outcome.into());
        end.details = outcome_details(self.details.clone(), outcome);
        end
    }

    /// The same for a call that has no outcome of its own, such as reading a file.
    #[must_use]
    pub fn ended_with(&self, status: RunStatus, wall_ms: f64) -> Self {
        let mut end = self.clone();
        end.at_ms = now_ms();
        end.kind = self.kind.ended();
        end.status = Some(status);
        end.details.wall_ms = Some(wall_ms);
        end
    }

    /// Sets the session.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Sets the client.
    #[must_use]
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// Sets the tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<String>) -> Self {
        self.tool = Some(tool.into());
        self
    }

    /// Sets the risk.
    #[must_use]
    pub fn risk(mut self, risk: Risk) -> Self {
        self.risk = Some(risk);
        self
    }

    /// Sets the summary of the arguments.
    #[must_use]
    pub fn arguments(mut self, summary: impl Into<String>) -> Self {
        self.details.arguments = Some(summary.into());
        self
    }

    /// Records hash and size of the code; the code itself is not kept.
    #[must_use]
    pub fn code(mut self, code: &[u8]) -> Self {
        self.details.code_sha256 = Some(Digest::of(code));
        self.details.code_bytes = u64::try_from(code.len()).ok();
        self
    }

    /// Sets the verdict of screening and policy.
    #[must_use]
    pub fn verdict(mut self, verdict: impl Into<String>) -> Self {
        self.details.verdict = Some(verdict.into());
        self
    }

    /// Records a written file.
    #[must_use]
    pub fn wrote(mut self, path: impl Into<String>, content: &[u8]) -> Self {
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let sha256 = Some(Digest::of(content));
        self.details.writes.push(Write { path: path.into(), bytes, sha256 });
        self
    }

    /// A file that was written, whose content was hashed while it was: SHA-256 in hexadecimal.
    #[must_use]
    pub fn wrote_hashed(mut self, path: impl Into<String>, bytes: u64, sha256: &str) -> Self {
        let sha256 = sha256.parse().ok();
        self.details.writes.push(Write { path: path.into(), bytes, sha256 });
        self
    }

    pub(crate) fn of(kind: Kind, run_id: Option<RunId>) -> Self {
        Self {
            at_ms: now_ms(),
            kind,
            run_id,
            session: None,
            client: None,
            tool: None,
            status: None,
            risk: None,
            details: Details::default(),
        }
    }
}

/// Name of a session, client or tool as stored; filters compare with this form.
pub(crate) fn stored_name(redactor: &dyn Redactor, name: &str) -> String {
    redact_and_cut(redactor, name, NAME_CHARS_MAX)
}

impl Details {
    /// Redacts and bounds every text. Destructures field by field, so that a new field does not compile until it is
    /// handled here.
    pub(crate) fn redacted(self, redactor: &dyn Redactor) -> Self {
        let Self {
            arguments,
            code_sha256,
            code_bytes,
            verdict,
            reason,
            code,
            exit_code,
            signal,
            wall_ms,
            cpu_ms,
            memory_peak_bytes,
            result_bytes,
            result_head,
            writes,
            writes_total,
            violations,
            violations_total,
            findings,
            policy_sha256,
            connection,
        } = self;
        let cut = |text: &str| redact_and_cut(redactor, text, TEXT_CHARS_MAX);
        let short = |text: Option<String>| text.map(|t| cut(&t));
        let head = |t: String| redact_and_cut(redactor, &t, RESULT_CHARS_MAX);
        Self {
            arguments: short(arguments),
            code_sha256,
            code_bytes,
            verdict: short(verdict),
            reason: short(reason),
            code: short(code),
            exit_code,
            signal,
            wall_ms: wall_ms.filter(|n| n.is_finite()),
            cpu_ms: cpu_ms.filter(|n| n.is_finite()),
            memory_peak_bytes,
            result_bytes,
            result_head: result_head.map(head),
            writes_total: writes_total.max(writes.len() as u64),
            writes: writes
                .into_iter()
                .take(LIST_MAX)
                .map(|Write { path, bytes, sha256 }| Write { path: cut(&path), bytes, sha256 })
                .collect(),
            violations_total: violations_total.max(violations.len() as u64),
            violations: first_of_each(violations, |v| (v.layer.clone(), v.rule.clone()))
                .into_iter()
                .map(|Violation { layer, rule, subject, count }| Violation {
                    layer: cut(&layer),
                    rule: cut(&rule),
                    subject: cut(&subject),
                    count,
                })
                .collect(),
            findings: first_of_each(findings, |finding| finding.rule)
                .into_iter()
                .map(|finding| Finding { subject: cut(&finding.subject), ..finding })
                .collect(),
            policy_sha256,
            connection: connection.map(|connection| {
                let Connection { host, rule, reason, grant, program, .. } = *connection.clone();
                Box::new(Connection {
                    host: cut(&host),
                    rule: short(rule),
                    reason: short(reason),
                    grant: short(grant),
                    program: short(program),
                    ..*connection
                })
            }),
        }
    }
}

/// Keeps at most [`LIST_MAX`] items, in order: the first of each rule, then the earliest others. Many harmless ones
/// cannot keep the telling one out.
fn first_of_each<T, K: Eq + Hash>(items: Vec<T>, rule: impl Fn(&T) -> K) -> Vec<T> {
    if items.len() <= LIST_MAX {
        return items;
    }
    let mut seen = HashSet::new();
    let is_first: Vec<bool> = items.iter().map(|item| seen.insert(rule(item))).collect();
    let mut n_first = seen.len().min(LIST_MAX);
    let mut n_others = LIST_MAX - n_first;
    let is_kept = |is_first| {
        let left = if is_first { &mut n_first } else { &mut n_others };
        let is_kept = *left > 0;
        *left = left.saturating_sub(1);
        is_kept
    };
    let kept: Vec<bool> = is_first.into_iter().map(is_kept).collect();
    items.into_iter().zip(kept).filter_map(|(item, is_kept)| is_kept.then_some(item)).collect()
}

/// Combines the start's details with those of the outcome.
fn outcome_details(start: Details, outcome: &Outcome) -> Details {
    let usage = &outcome.usage;
    let (error, exception) = (&outcome.error, &outcome.exception);
    let raised = exception.as_ref().map(|e| format!("{}: {}", e.kind, e.message));
    let enforcement = outcome.enforcement.as_ref();
    let writes = outcome.artifacts.iter().map(|a| Write {
        path: a.path.clone(),
        bytes: a.bytes,
        sha256: None,
    });
    Details {
        reason: error.as_ref().map(|e| e.message.clone()).or(raised).or(start.reason.clone()),
        code: error.as_ref().map(|e| e.code.to_string()).or(start.code.clone()),
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        wall_ms: Some(usage.wall_ms),
        cpu_ms: Some(usage.cpu_ms),
        memory_peak_bytes: usage.memory_peak_bytes,
        result_bytes: match (usage.stdout_bytes, usage.stderr_bytes) {
            (None, None) => None,
            (out, err) => Some(out.unwrap_or(0).saturating_add(err.unwrap_or(0))),
        },
        result_head: result_head(outcome),
        writes: start.writes.iter().cloned().chain(writes).collect(),
        writes_total: start.writes_total,
        violations: outcome.denials.iter().map(Violation::from).collect(),
        violations_total: outcome.denials.iter().map(|d| d.count).sum(),
        findings: outcome.findings.clone(),
        policy_sha256: enforcement
            .and_then(|e| e.policy_sha256.as_deref())
            .and_then(|text| text.parse().ok()),
        ..start
    }
}

/// Excerpt of the result: standard output, else the value, else standard error.
fn result_head(outcome: &Outcome) -> Option<String> {
    if outcome.encoding == Encoding::Base64 {
        // Base64 would hide a secret from the redactor, and is unreadable.
        return Some("(not text)".to_owned());
    }
    let value = outcome.value.as_deref().unwrap_or("");
    let texts = [outcome.stdout.as_str(), value, outcome.stderr.as_str()];
    let text = texts.into_iter().find(|text| !text.is_empty())?;
    // Copy only as much as the redactor reads.
    Some(crate::redact::first_chars(text, 4 * RESULT_CHARS_MAX + 8192).to_owned())
}

impl From<&Denial> for Violation {
    fn from(denial: &Denial) -> Self {
        let layer = serde_json::to_value(denial.layer).ok();
        Self {
            layer: layer.and_then(|l| l.as_str().map(str::to_owned)).unwrap_or_default(),
            rule: denial.rule.to_string(),
            subject: denial.subject.clone(),
            count: denial.count,
        }
    }
}

/// Milliseconds since 1970 by the host's clock.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_one_violation_of_each_rule() {
        let violation = |rule: &str, n: usize| Violation {
            layer: "syscalls".to_owned(),
            rule: rule.to_owned(),
            subject: n.to_string(),
            count: 1,
        };
        let harmless = (0..150).map(|n| violation("harmless", n));
        let telling = [violation("telling", 150), violation("telling", 151)];
        let violations: Vec<Violation> = harmless.chain(telling).collect();
        let details = Details { violations, ..Details::default() };
        let kept = details.redacted(&crate::redact::KeepAll);
        assert_eq!((kept.violations.len(), kept.violations_total), (LIST_MAX, 152));
        let subjects: Vec<&str> = kept.violations.iter().map(|v| v.subject.as_str()).collect();
        let expected: Vec<String> = (0..99).chain([150]).map(|n: usize| n.to_string()).collect();
        assert_eq!(subjects, expected);
    }

    #[test]
    fn the_first_of_each_are_kept_in_order_within_the_limit() {
        let kept = first_of_each((0..300).collect(), |n| *n);
        assert_eq!(kept, (0..100).collect::<Vec<_>>(), "more rules than are kept");
        let kept = first_of_each((0..300).collect(), |n| n / 100);
        assert_eq!(kept, (0..98).chain([100, 200]).collect::<Vec<_>>());
        assert_eq!(first_of_each(vec![1, 1, 2], |n| *n), [1, 1, 2]);
    }
}
