//! Tool declarations as a model first sees them: purpose, when not to use it, one example. Every word costs tokens in
//! every conversation, so all declarations together stay below 2,200 tokens; a test counts.

use std::sync::Arc;

use ringfence_engine::Engine;
use ringfence_spec::{CodePreset, CommandPreset, Count, Limits, Network, Span};
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
    pub(super) command_preset: CommandPreset,
    pub(super) network: Network,
}

/// Maximum number of hosts that a description names.
const HOSTS_MAX: usize = 8;

impl PolicyInForce {
    /// The policy of an engine.
    pub(super) fn of(engine: &Engine) -> Self {
        Self {
            preset: engine.code_policy().rules.preset,
            processes: engine.code_policy().processes,
            code: engine.code_policy().limits.clone(),
            command: engine.command_policy().limits.clone(),
            command_preset: engine.command_policy().preset,
            network: engine.command_policy().network.clone(),
        }
    }

    /// Returns true if commands without a session see files of the user.
    pub(super) fn commands_see_users_files(&self) -> bool {
        self.command_preset != CommandPreset::Minimal
    }

    /// Names the network of commands.
    pub(super) fn network(&self) -> String {
        let Network::Allow(rules) = &self.network else { return "no network".to_owned() };
        let mut hosts: Vec<&str> = rules.rules().take(HOSTS_MAX + 1).collect();
        if hosts.len() > HOSTS_MAX {
            hosts[HOSTS_MAX] = "…";
        }
        format!("network only to {}", hosts.join(", "))
    }

    /// Describes the tool that runs commands.
    fn run_command(&self) -> String {
        let place = match self.command_preset {
            CommandPreset::Workspace | CommandPreset::Agent => {
                "Starts in the user's working directory, and may write only there and in /tmp, which is empty in every call"
            }
            CommandPreset::Readonly => {
                "Starts in the user's working directory, which it may only read; /tmp is writable, and empty in every call"
            }
            CommandPreset::Minimal => {
                "Sees none of the user's files: starts in an empty /workspace, gone after the call"
            }
        };
        format!(
            "Run a shell command in a sandbox: host tools work, secrets are hidden, {}. {place}; with `session` in that session's \
             /workspace. For plain Python prefer execute_code.\n\
             Example: {{\"command\": \"git diff --stat && cargo test 2>&1 | tail -20\"}}",
            self.network()
        )
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
        let elsewhere =
            if self.commands_see_users_files() { " (run_command sees them)" } else { "" };
        let (search, example) = match self.preset {
            CodePreset::Strict => ("", "sum([3, 4, 8]) / 3"),
            _ => (
                ", and `import code_api` searches its files",
                "import statistics\\nstatistics.mean([3, 4, 8])",
            ),
        };
        format!(
            "Run Python in a sandbox: {may}. No network, {processes}, none of the user's files{elsewhere}.{time} \
             The value of a last expression comes back as `value`. Without `session` each call starts empty; with it variables \
             and files stay{search}.\nExample: {{\"code\": \"{example}\"}}"
        )
    }
}

/// Lists every tool, always in this order.
pub(super) fn all(policy: &PolicyInForce) -> Vec<Tool> {
    let source_max = match policy.preset.source_bytes_max() >> 10 {
        kib if kib >= 1024 => format!("Python source, at most {} MiB", kib >> 10),
        kib => format!("Python source, at most {kib} KiB"),
    };
    let read_file = "Read a session's file: text as text, PNG and JPEG as images, anything else as base64. A long file comes in parts: pass \
                     `next_offset` as `offset`.";
    let read_file = if policy.commands_see_users_files() {
        format!("{read_file} The user's own files: run_command.")
    } else {
        read_file.to_owned()
    };
    vec![
        tool(
            "execute_code",
            "Execute Python",
            policy.execute_code(),
            &CHANGES,
            &json!({
                "code": {"type": "string", "description": source_max},
                "session": plain(),
                "timeout_s": timeout(policy.code.timeout),
            }),
            &["code"],
            outcome(),
        ),
        tool(
            "run_command",
            "Run a command",
            policy.run_command(),
            &CHANGES,
            &json!({
                "command": plain(),
                "session": plain(),
                "cwd": text("A directory that the command sees, instead of where it starts"),
                "stdin": {"type": "string", "description": "What it reads"},
                "timeout_s": timeout(policy.command.timeout),
            }),
            &["command"],
            outcome(),
        ),
        tool(
            "wait",
            "Wait for a run",
            "Get the result of a run that answered `status: running`; if it still runs, call again. Cancelling this call ends the run.",
            &LOOKS,
            &json!({
                "run_id": {"type": "string"},
                "timeout_s": {"type": "number", "minimum": 0, "maximum": 60, "description": "Default 2.5"},
                "cursor": text("Of the last answer: only newer output comes"),
            }),
            &["run_id"],
            outcome(),
        ),
        tool(
            "read_file",
            "Read a session's file",
            read_file,
            &LOOKS,
            &json!({
                "session": plain(),
                "path": plain(),
                "offset": {"type": "integer", "minimum": 0, "description": "First byte; default 0"},
                "limit": {"type": "integer", "minimum": 1, "description": "Bytes; default 20000, at most 60000"},
            }),
            &["session", "path"],
            result(),
        ),
        tool(
            "write_file",
            "Write a session's file",
            "Write a session's text file; replaces one of that name, makes missing directories. .env, .git, config.json and files that agents obey are protected.\n\
             Example: {\"session\": \"4be1…\", \"path\": \"data/in.json\", \"content\": \"[1, 2]\"}",
            &REPLACES,
            &json!({
                "session": plain(),
                "path": plain(),
                "content": text("All of the file"),
                "encoding": {"type": "string", "enum": ["utf-8", "base64"]},
            }),
            &["session", "path", "content"],
            result(),
        ),
        tool(
            "edit_file",
            "Edit a session's file",
            "Replace parts of a session's text file, all or none. `old` must be there exactly once, unless `all`.\n\
             Example: {\"session\": \"4be1…\", \"path\": \"a.py\", \"edits\": [{\"old\": \"x = 1\", \"new\": \"x = 2\"}]}",
            &CHANGES,
            &json!({
                "session": plain(),
                "path": plain(),
                "edits": {"type": "array", "items": {"type": "object", "properties": {
                    "old": plain(), "new": plain(), "all": {"type": "boolean"},
                }, "required": ["old", "new"]}},
            }),
            &["session", "path", "edits"],
            result(),
        ),
        tool(
            "list_dir",
            "List a session's files",
            "List a session's directory, 500 entries at most.",
            &LOOKS,
            &json!({
                "session": plain(),
                "path": plain(),
                "depth": {"type": "integer", "minimum": 1, "maximum": 32, "description": "Levels; default 1"},
            }),
            &["session"],
            result(),
        ),
        tool(
            "grep",
            "Search a session's files",
            "Find lines of a session's files by a regular expression (no look-around, no back-references). Lines are cut to 100 \
             characters; binary files, `.git` and links are not searched.\n\
             Example: {\"session\": \"4be1…\", \"pattern\": \"def \\\\w+\", \"glob\": \"*.py\"}",
            &LOOKS,
            &json!({
                "session": plain(),
                "pattern": plain(),
                "path": plain(),
                "glob": {"type": "string", "description": "Such as `src/**/*.rs`"},
                "literal": {"type": "boolean"},
                "ignore_case": {"type": "boolean"},
                "context": {"type": "integer", "minimum": 0, "maximum": 5},
                "limit": {"type": "integer", "minimum": 1, "maximum": 200, "description": "Matches; default 20"},
            }),
            &["session", "pattern"],
            result(),
        ),
        tool(
            "search",
            "Search a session's files by meaning",
            "Find the pieces of a session's files that fit a question or a name best, ranked. For an exact text use grep.\n\
             Example: {\"session\": \"4be1…\", \"query\": \"where are retries configured\"}",
            &LOOKS,
            &json!({
                "session": plain(),
                "query": plain(),
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Hits; default 10"},
                "filters": {"type": "object", "properties": {
                    "glob": {"type": "string"}, "language": {"type": "string"},
                }},
            }),
            &["session", "query"],
            result(),
        ),
        tool(
            "index",
            "Index a session's files",
            "Bring a session's search index up to date, as a search does too, and tell what was left out.",
            &CHANGES,
            &json!({
                "session": plain(),
                "path": plain(),
            }),
            &["session"],
            result(),
        ),
        tool(
            "session",
            "Manage sessions",
            "Sessions keep Python variables and files between calls, for 24 hours at most. `create` one; `info` tells about one, \
             without `session` about all; `fork` copies its files; `rollback` takes variables back to after `cell`, files stay; \
             `close` deletes it.\n\
             Example: {\"action\": \"create\"}",
            &CHANGES,
            &json!({
                "action": {"type": "string", "enum": ["create", "info", "fork", "rollback", "close"]},
                "session": {"type": "string", "description": "For all but `create`"},
                "cell": {"type": "integer", "minimum": 0, "description": "For `rollback`: one of `checkpoints`"},
                "read_only": {"type": "boolean", "description": "For `create`: files cannot be changed"},
            }),
            &["action"],
            result(),
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
    let annotations = ToolAnnotations::new()
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

/// An argument that its name explains.
fn plain() -> Value {
    json!({"type": "string"})
}

/// Output schema of a run: what a model acts on first. The others of the outcome are sent too.
fn outcome() -> JsonObject {
    object(json!({
        "type": "object",
        "properties": {
            "status": {"type": "string", "description": "`ok`, `running`, or why not"},
            "stdout": text("Output"),
            "value": text("Of a last expression"),
        },
    }))
}

/// Output schema of any other call.
fn result() -> JsonObject {
    object(json!({"type": "object"}))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
