//! Results of tool calls: structured data, and a short text version for hosts that show text.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use ringfence_engine::{Artifacts, OutputCursor, Run, some_id};
use ringfence_spec::{
    Artifact, DeniedBy, Encoding, Enforcement, ErrorInfo, Face, Layer, Outcome, Problem,
    ProblemKind, Status, escape_name,
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde::Serialize;
use serde_json::{Value, json};

use super::resources::ResourceStore;
use super::tools::PolicyInForce;
use super::{picture, truncate};

/// Maximum number of images shown per run.
const IMAGES_MAX: usize = 4;

/// Maximum number of denials and of artifacts in the text; the structured data lists more.
const TOLD_MAX: usize = 10;

/// Builds the result of a run that ended, with links to what does not fit in it.
pub(super) fn of_run(
    mut outcome: Outcome,
    files: Option<Arc<Artifacts>>,
    resources: &ResourceStore,
    users_files: UsersFiles,
) -> CallToolResult {
    outcome.notes.extend(missing_file(&outcome, users_files));
    let mut images = Vec::new();
    for artifact in &outcome.artifacts {
        if images.len() == IMAGES_MAX || artifact.bytes > picture::SOURCE_BYTES_MAX {
            continue;
        }
        if !is_picture(artifact) {
            continue;
        }
        let bytes = files
            .as_ref()
            .and_then(|f| f.read(Path::new(&artifact.path), picture::SOURCE_BYTES_MAX).ok());
        images.extend(bytes.as_deref().and_then(picture::shown));
    }
    let links = resources.keep(&outcome, files);
    truncate::outcome(&mut outcome);
    outcome.word_for(Face::Mcp);
    let mut result = result(outcome.status, as_text(&outcome), &lean(&outcome));
    result.content.extend(images);
    result.content.extend(links.into_iter().map(ContentBlock::resource_link));
    result
}

/// The user's files, for a program that missed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsersFiles {
    /// Commands without a session see them.
    SeenByCommands,
    /// No tool sees them.
    Unseen,
}

impl UsersFiles {
    pub(super) fn of(policy: &PolicyInForce) -> Self {
        if policy.commands_see_users_files() { Self::SeenByCommands } else { Self::Unseen }
    }
}

/// Tells a model where a file is that its program did not find: with an earlier call, or with the user.
fn missing_file(outcome: &Outcome, users_files: UsersFiles) -> Option<String> {
    let raised = outcome.exception.as_ref().filter(|raised| raised.kind == "FileNotFoundError")?;
    let elsewhere = match users_files {
        UsersFiles::SeenByCommands => "; run_command without `session` sees the user's files",
        UsersFiles::Unseen => "",
    };
    if outcome.session_id.is_none() {
        return Some(format!(
            "a call without `session` starts with no files: pass `session` to keep them between calls{elsewhere}"
        ));
    }
    let is_users = raised.message.contains(": '/") && !raised.message.contains(": '/workspace/");
    (is_users && !elsewhere.is_empty())
        .then(|| format!("a session has files of its own only{elsewhere}"))
}

/// Returns whether a result shows this artifact as an image, if its contents match its media type.
pub(super) fn is_picture(artifact: &Artifact) -> bool {
    matches!(artifact.media_type.as_str(), "image/png" | "image/jpeg")
}

/// Builds the result of a run in progress, with its output after a cursor.
pub(super) fn running(run: &Run, cursor: OutputCursor) -> CallToolResult {
    let partial = run.partial_after(cursor);
    let mut text = String::new();
    for (name, stream) in [("stdout", &partial.stdout), ("stderr", &partial.stderr)] {
        if !stream.is_empty() {
            let new = if cursor == OutputCursor::default() { "so far" } else { "since then" };
            line(&mut text, &format!("{name} {new}:\n{stream}"));
        }
    }
    let note = partial.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    let seconds = run.began().elapsed().as_secs_f64();
    line(&mut text, &format!("still running after {seconds:.0} s{note}"));
    let next = partial.cursor;
    line(&mut text, &format!("hint: call wait with run_id `{}` and cursor `{next}`", run.id()));
    let mut data = run.running(&partial);
    data["cursor"] = next.to_string().into();
    if let Some(fields) = data.as_object_mut() {
        // What came before the cursor was shown.
        if fields.get("truncated").is_some_and(|truncated| truncated["dropped_bytes"] == 0) {
            fields.remove("truncated");
        }
        drop_defaults(fields, &["status", "ran", "run_id", "stdout", "stderr"]);
    }
    result(Status::Ok, text, &data)
}

/// Replaces the output of a run that has ended by what came after a cursor, if all of that is known.
pub(super) fn after(mut result: CallToolResult, run: &Run, cursor: OutputCursor) -> CallToolResult {
    let partial = run.partial_after(cursor);
    if cursor == OutputCursor::default() || !partial.is_whole {
        return result;
    }
    let Some(data) = &mut result.structured_content else { return result };
    let mut text = String::new();
    for (name, new) in [("stdout", &partial.stdout), ("stderr", &partial.stderr)] {
        let whole = data.get(name).and_then(Value::as_str).unwrap_or_default();
        // What is shown at the end is what was shown on the way, up to the end of a line.
        if !whole.ends_with(new.as_str()) {
            return result;
        }
        if !new.is_empty() {
            line(&mut text, &format!("{name} since then:\n{new}"));
        }
        if data.get(name).is_some() {
            data[name] = new.as_str().into();
        }
    }
    let status = data["status"].as_str().unwrap_or_default().to_owned();
    line(&mut text, &format!("status: {status}"));
    if let Some(first) = result.content.first_mut()
        && status == "ok"
    {
        *first = ContentBlock::text(text);
    }
    result
}

/// Builds the result of a run that did not start.
pub(super) fn not_started(problem: &Problem) -> CallToolResult {
    of_outcome(Outcome::not_started(some_id(), status_of(problem.kind), problem))
}

/// Builds the result for a run id that does not exist.
pub(super) fn no_such_run(run_id: &str, problem: &Problem) -> CallToolResult {
    let mut outcome = Outcome::not_started(some_id(), Status::Error, problem);
    outcome.word_for(Face::Mcp);
    let mut shaped = lean(&outcome);
    shaped["run_id"] = run_id.into();
    shaped["ran"] = "unknown".into();
    result(Status::Error, as_text(&outcome), &shaped)
}

/// Builds the result of a run that left no files.
pub(super) fn of_outcome(outcome: Outcome) -> CallToolResult {
    of_run(outcome, None, &ResourceStore::default(), UsersFiles::Unseen)
}

/// Builds the result of a successful call other than a run. `own` is an object with the tool's own fields.
pub(super) fn done(text: String, mut own: Value) -> CallToolResult {
    own["status"] = "ok".into();
    own["ran"] = "yes".into();
    own["error"] = Value::Null;
    result(Status::Ok, text, &own)
}

/// Builds the result of a failed call other than a run.
pub(super) fn not_done(problem: &Problem) -> CallToolResult {
    let status = status_of(problem.kind);
    let error = ErrorInfo::from(&problem.clone().worded_for(Face::Mcp));
    let mut text = String::new();
    tell(&mut text, &error);
    result(status, text, &json!({"status": status, "ran": "no", "error": error}))
}

fn result(status: Status, text: String, data: &impl Serialize) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(shape(data));
    result.is_error = Some(status != Status::Ok);
    result
}

/// An outcome without the fields that a model need not read: those at their default and, of a run that went well in the full
/// fence, what it used and what held it. The ledger and REST have all of them.
fn lean(outcome: &Outcome) -> Value {
    let mut shaped = shape(outcome);
    let Some(fields) = shaped.as_object_mut() else { return shaped };
    let went_well = outcome.status == Status::Ok;
    if went_well && outcome.enforcement.as_ref().is_none_or(Enforcement::is_full) {
        fields.remove("enforcement");
    }
    let is_whole = !outcome.truncated.stdout && !outcome.truncated.stderr;
    if went_well && is_whole {
        fields.remove("usage");
    }
    if outcome.denials.is_empty() {
        // Says which refusals would not be in `denials`.
        fields.remove("unobserved");
    }
    if outcome.exit_code == Some(0) {
        fields.remove("exit_code");
    }
    if fields.get("start").is_some_and(|start| start == "warm") {
        fields.remove("start");
    }
    drop_defaults(fields, &["status", "ran", "run_id", "exit_code", "start"]);
    shaped
}

/// Removes the fields at their default, except those in `kept`.
fn drop_defaults(fields: &mut JsonObject, kept: &[&str]) {
    fields.retain(|name, value| match name.as_str() {
        name if kept.contains(&name) => true,
        "encoding" => value != "utf-8",
        _ => !is_default(value),
    });
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_default),
    }
}

fn shape(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}

/// Formats an outcome as text, in the order a person would look for it.
fn as_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    match outcome.encoding {
        Encoding::Utf8 => text.push_str(&outcome.stdout),
        Encoding::Base64 => text.push_str("(the output is no text; `stdout` holds it in base64)"),
    }
    if let Some(value) = &outcome.value {
        line(&mut text, value);
    }
    if outcome.encoding == Encoding::Utf8 && !outcome.stderr.is_empty() {
        line(&mut text, &format!("stderr:\n{}", outcome.stderr));
    }
    if let Some(raised) = &outcome.exception
        && !outcome.stderr.contains(&raised.kind)
    {
        let place = raised.line.map(|n| format!(" (line {n})")).unwrap_or_default();
        line(&mut text, &format!("{}: {}{place}", raised.kind, raised.message));
    }
    if outcome.status != Status::Ok {
        let code = outcome.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
        line(&mut text, &format!("status: {}{code}", outcome.status.name()));
    }
    if let Some(error) = &outcome.error {
        tell(&mut text, error);
    }
    for denial in outcome.denials.iter().take(TOLD_MAX) {
        let place = denial.line.map(|n| format!("line {n}: ")).unwrap_or_default();
        line(
            &mut text,
            &match denial.layer {
                // A sentence, not a name.
                Layer::Resources if denial.by == DeniedBy::Host => {
                    format!("refused: {place}{}: {}: {}", denial.rule, denial.subject, denial.hint)
                }
                _ => format!(
                    "refused: {place}{} `{}`: {}",
                    denial.rule,
                    escape_name(&denial.subject),
                    denial.hint
                ),
            },
        );
    }
    if outcome.denials.len() > TOLD_MAX {
        line(
            &mut text,
            &format!("and {} more refusals, in `denials`", outcome.denials.len() - TOLD_MAX),
        );
    }
    for note in &outcome.notes {
        line(&mut text, &format!("note: {note}"));
    }
    for artifact in outcome.artifacts.iter().take(TOLD_MAX) {
        line(
            &mut text,
            &format!(
                "file: {} ({} bytes, {})",
                escape_name(&artifact.path),
                artifact.bytes,
                artifact.media_type
            ),
        );
    }
    if text.is_empty() {
        text.push_str("(no output)");
    }
    text
}

fn tell(text: &mut String, error: &ErrorInfo) {
    line(text, &format!("error: {} ({})", error.message, error.code));
    if let Some(hint) = &error.hint {
        line(text, &format!("hint: {hint}"));
    }
}

fn line(text: &mut String, more: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = write!(text, "{more}");
}

fn status_of(kind: ProblemKind) -> Status {
    match kind {
        ProblemKind::Usage | ProblemKind::NotFound => Status::Error,
        ProblemKind::Refused => Status::Blocked,
        ProblemKind::Interrupted(_) => Status::Killed,
        ProblemKind::CannotBuild | ProblemKind::Internal => Status::Failed,
    }
}
