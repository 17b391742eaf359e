//! Tool declarations as a model first sees them: purpose, when not to use it, one example. Every word costs tokens in
//! every conversation, so all declarations together stay below 3,500 tokens; a test counts.

use std::sync::Arc;

use ringfence_engine::Engine;
use ringfence_spec::{CodePreset, Count, Limits, Span};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Effects of a call on its surroundings.
struct Effects {
    read_only: bool,
    destructive: bool,
    idempotent: bool,
}

/// Reads, and changes nothing.
const LOOKS: Effects = Effects { read_only: true, destructive: false, idempotent: true };

/// May replace or remove files; a second call repeats the change.
const CHANGES: Effects = Effects { read_only: false, destructive: true, idempotent: false };

/// Replaces one file; a second call has no further effect.
const REPLACES: Effects = Effects { read_only: false, destructive: true, idempotent: true };

/// Parts of the operator's policy that descriptions name.
#[derive(Clone, Debug)]
pub(super) struct PolicyInForce {
    pub(super) preset: CodePreset,
    pub(super) processes: Option<Count>,
    pub(super) code: Limits,
    pub(super) command: Limits,
}

impl PolicyInForce {
    /// The policy of an engine.
    pub(super) fn of(engine: &Engine) -> Self {
        Self {
            preset: engine.code_policy().rules.preset,
            processes: engine.code_policy().processes,
            code: engine.code_policy().limits.clone(),
            command: engine.command_policy().limits.clone(),
        }
    }

    /// Describes the tool that runs Python.
    fn execute_code(&self) -> String {
        let may = match self.preset {
            CodePreset::Strict => {
                "expressions, loops and 36 builtins; no import, def, class, with or try; no files"
            }
            CodePreset::Standard => {
                "an import allowlist (json, math, re, csv, datetime, statistics, itertools…); no files, no eval, no reflection"
            }
            CodePreset::Data | CodePreset::Open => {
                "the standard library and the packages installed on this host; files in /workspace, which starts empty"
            }
        };
        let memory =
            self.code.memory.map_or_else(String::new, |size| format!(", {size} of memory"));
        let time =
            self.code.timeout.map_or_else(String::new, |time| format!(" Limits: {time}{memory}."));
        let processes = match self.processes {
            Some(n) => format!("without `session` at most {n} child processes and threads"),
            None => "no child processes".to_owned(),
        };
        format!(
            "Run Python in a sandbox: {may}. No network, {processes}, none of the user's files.{time} Use it to \
             compute, parse or check something; shell commands and the user's files are for run_command. The value of \
             a last expression comes back as `value`. With `session`, variables and files stay for the next call.\nExample: {{\"code\": \"import statistics\\nstatistics.mean([3, 4, 8])\"}}"
        )
    }
}

/// Lists every tool, always in this order.
pub(super) fn all(policy: &PolicyInForce) -> Vec<Tool> {
    let source_max = match policy.preset.source_bytes_max() >> 10 {
        kib if kib >= 1024 => format!("Python source, at most {} MiB", kib >> 10),
        kib => format!("Python source, at most {kib} KiB"),
    };
    vec![
        tool(
            "execute_code",
            "Execute Python",
            policy.execute_code(),
            &CHANGES,
            &json!({
                "code": {"type": "string", "description": source_max},
                "session": text("Session id, from the session tool"),
                "timeout_s": timeout(policy.code.timeout),
            }),
            &["code"],
            outcome(),
        ),
        tool(
            "run_command",
            "Run a command",
            "Run a shell command (`sh -c`) in a sandbox: host tools work, secrets are hidden, no network. Without `session` it \
             starts in the user's working directory, which it may change as far as the operator allows; with one it sees the \
             session's /workspace instead. Not for downloads, nor for programs that ask questions. For plain Python prefer \
             execute_code.\n\
             Example: {\"command\": \"git diff --stat && cargo test 2>&1 | tail -20\"}",
            &CHANGES,
            &json!({
                "command": {"type": "string", "description": "Text for the shell"},
                "session": text("Session id, from the session tool"),
                "cwd": {"type": "string", "description": "Directory to change to first"},
                "stdin": {"type": "string", "description": "What the command reads; nothing if left out"},
                "timeout_s": timeout(policy.command.timeout),
            }),
            &["command"],
            outcome(),
        ),
        tool(
            "wait",
            "Wait for a run",
            "Get the result of a run that answered `status: running`. Waits up to 5 seconds; if it is still running, call again. \
             Cancelling this call ends the run. Not needed for any other status.\n\
             Example: {\"run_id\": \"0f3c…\"}",
            &LOOKS,
            &json!({"run_id": {"type": "string", "description": "The `run_id` of the running result"}}),
            &["run_id"],
            outcome(),
        ),
        tool(
            "read_file",
            "Read a session's file",
            "Read a file of a session, by bytes: text as text, PNG and JPEG as images, anything else as base64. A long file comes \
             in parts: pass `next_offset` as `offset` for the next one. Not for the user's own files: use run_command.\n\
             Example: {\"session\": \"4be1…\", \"path\": \"report.csv\"}",
            &LOOKS,
            &json!({
                "session": text("Session id"),
                "path": text("Below /workspace"),
                "offset": {"type": "integer", "minimum": 0, "description": "First byte; default 0"},
                "limit": {"type": "integer", "minimum": 1, "description": "Bytes at most; default 20000, at most 60000"},
            }),
            &["session", "path"],
            result(&json!({
                "path": {"type": "string"},
                "content": {"type": ["string", "null"]},
                "encoding": {"enum": ["utf-8", "base64", null]},
                "media_type": {"type": ["string", "null"]},
                "total_bytes": {"type": ["integer", "null"]},
                "next_offset": {"type": ["integer", "null"]},
                "sha256": {"type": ["string", "null"]},
            })),
        ),
        tool(
            "write_file",
            "Write a session's file",
            "Write a text file of a session, whole or not at all: it replaces a file of that name, and missing directories are \
             made. Names such as .env and .git are protected. Not for the user's own files.\n\
             Example: {\"session\": \"4be1…\", \"path\": \"data/in.json\", \"content\": \"[1, 2]\"}",
            &REPLACES,
            &json!({
                "session": text("Session id"),
                "path": text("Below /workspace"),
                "content": {"type": "string", "description": "All of the file"},
            }),
            &["session", "path", "content"],
            result(&json!({
                "path": {"type": "string"},
                "created": {"type": ["boolean", "null"]},
                "total_bytes": {"type": ["integer", "null"]},
                "sha256": {"type": ["string", "null"]},
            })),
        ),
        tool(
            "list_dir",
            "List a session's files",
            "List what is in a directory of a session, 500 entries at most. Links are shown and not followed.\n\
             Example: {\"session\": \"4be1…\", \"path\": \".\", \"depth\": 2}",
            &LOOKS,
            &json!({
                "session": text("Session id"),
                "path": {"type": "string", "description": "Below /workspace; default `.`"},
                "depth": {"type": "integer", "minimum": 1, "maximum": 32, "description": "Levels; default 1"},
            }),
            &["session"],
            result(&json!({
                "path": {"type": "string"},
                "entries": {"type": "array", "items": {"type": "object"}},
                "truncated": {"type": "boolean"},
            })),
        ),
        tool(
            "grep",
            "Search a session's files",
            "Find lines of a session's files by a regular expression (Rust syntax: no look-around, no back-references). Faster \
             and shorter than reading files. Binary files, `.git` and links are not searched; lines are cut to 100 characters.\n\
             Example: {\"session\": \"4be1…\", \"pattern\": \"def \\\\w+\", \"glob\": \"*.py\"}",
            &LOOKS,
            &json!({
                "session": text("Session id"),
                "pattern": text("What to look for"),
                "path": {"type": "string", "description": "File or directory below /workspace; default `.`"},
                "glob": {"type": "string", "description": "Only these files, such as `*.py` or `src/**/*.rs`"},
                "literal": {"type": "boolean", "description": "The pattern is a text, not an expression"},
                "ignore_case": {"type": "boolean", "description": "Search case-insensitively"},
                "context": {"type": "integer", "minimum": 0, "maximum": 5, "description": "Lines around each; default 0"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 200, "description": "Matches; default 20"},
            }),
            &["session", "pattern"],
            result(&json!({
                "matches": {"type": "array", "items": {"type": "object"}},
                "n_files": {"type": "integer"},
                "n_skipped": {"type": "integer"},
                "cut": {"enum": ["matches", "bytes", "time", null]},
            })),
        ),
        tool(
            "search",
            "Search a session's files by meaning",
            "Find the pieces of a session's files that fit a question or a name best, ranked: where something is done, defined or \
             described. For an exact text use `grep`. In code: `import code_api` searches, filters and aggregates in one call.\n\
             Example: {\"session\": \"4be1…\", \"query\": \"where are retries configured\"}",
            &LOOKS,
            &json!({
                "session": text("Session id"),
                "query": text("Words, a question, or the name of a definition"),
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Hits; default 10"},
                "filters": {"type": "object", "description": "`glob` such as `src/**/*.py`, `language` such as python", "properties": {
                    "glob": {"type": "string"}, "language": {"type": "string"},
                }},
            }),
            &["session", "query"],
            result(&json!({
                "hits": {"type": "array", "items": {"type": "object"}},
                "n_files": {"type": "integer"},
                "complete": {"type": "boolean"},
            })),
        ),
        tool(
            "index",
            "Index a session's files",
            "Bring a session's search index up to date. Searches do so themselves; this is for many new files at once, and tells \
             what was left out.",
            &CHANGES,
            &json!({"session": text("Session id")}),
            &["session"],
            result(&json!({
                "indexed": {"type": "integer"},
                "n_files": {"type": "integer"},
                "skipped_files": {"type": "array", "items": {"type": "object"}},
            })),
        ),
        tool(
            "session",
            "Manage sessions",
            "Sessions keep Python variables and files between calls, for at most 24 hours. `create` makes one; `info` tells about \
             one, or lists all without `session`; `fork` copies its files to a new one; `rollback` takes its variables back to \
             what they were after `cell` (files stay); `close` deletes it and its files. Not needed for a single calculation.\n\
             Example: {\"action\": \"create\"}",
            &CHANGES,
            &json!({
                "action": {"enum": ["create", "info", "fork", "rollback", "close"], "description": "What to do"},
                "session": {"type": "string", "description": "For all but `create`"},
                "cell": {"type": "integer", "minimum": 0, "description": "For `rollback`: one of `checkpoints`"},
                "read_only": {"type": "boolean", "description": "For `create`: files cannot be changed"},
            }),
            &["action"],
            result(&json!({
                "session_id": {"type": ["string", "null"]},
                "info": {"type": ["object", "null"]},
                "sessions": {"type": ["array", "null"]},
            })),
        ),
    ]
}

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn timeout(limit: Option<Span>) -> Value {
    let Some(limit) = limit else {
        return json!({"type": "number", "exclusiveMinimum": 0, "description": "Seconds"});
    };
    json!({"type": "number", "exclusiveMinimum": 0, "maximum": std::time::Duration::from_millis(limit.millis()).as_secs_f64(),
        "description": format!("Seconds; default and most {limit}")})
}

/// Schema of `{code, message, hint}`, or null.
fn problem() -> Value {
    json!({"type": ["object", "null"], "properties": {
        "code": {"type": "string"}, "message": {"type": "string"}, "hint": {"type": ["string", "null"]}}})
}

fn tool(
    name: &'static str,
    title: &'static str,
    description: impl Into<std::borrow::Cow<'static, str>>,
    effects: &Effects,
    properties: &Value,
    required: &[&str],
    output: JsonObject,
) -> Tool {
    let input = object(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }));
    let annotations = ToolAnnotations::with_title(title)
        .read_only(effects.read_only)
        .destructive(effects.destructive)
        .idempotent(effects.idempotent)
        // Nothing in the sandbox reaches a network.
        .open_world(false);
    Tool::new(name, description, input)
        .with_title(title)
        .with_annotations(annotations)
        .with_raw_output_schema(Arc::new(output))
}

/// Output schema of a run. Describes the fields that a model acts on; the others are sent too.
fn outcome() -> JsonObject {
    object(json!({
        "type": "object",
        "properties": {
            "run_id": {"type": "string"},
            "session_id": {"type": ["string", "null"]},
            "status": {"enum": ["ok", "running", "error", "blocked", "timeout", "memory", "killed", "rejected", "failed"]},
            "ran": {"enum": ["yes", "no", "unknown"]},
            "exit_code": {"type": ["integer", "null"]},
            "stdout": {"type": "string"},
            "stderr": {"type": "string"},
            "value": {"type": ["string", "null"]},
            "exception": {"type": ["object", "null"]},
            "denials": {"type": "array", "items": {"type": "object"}},
            "artifacts": {"type": "array", "items": {"type": "object"}},
            "error": problem(),
        },
        "required": ["run_id", "status", "ran", "stdout", "stderr", "error"],
    }))
}

/// Output schema of any other call.
fn result(own: &Value) -> JsonObject {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "status": {"enum": ["ok", "error", "blocked", "killed", "failed"]},
            "ran": {"enum": ["yes", "no", "unknown"]},
            "error": problem(),
        },
        "required": ["status", "ran", "error"],
    });
    if let (Some(all), Some(own)) = (schema["properties"].as_object_mut(), own.as_object()) {
        all.extend(own.clone());
    }
    object(schema)
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
