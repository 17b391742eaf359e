//! Arguments of each tool. Names and types are those of the schemas in `tools.rs`; a test checks that they match.
//! Unknown arguments are rejected: accepting one that does nothing would be a promise.

use ringfence_engine::SessionId;
use ringfence_engine::files::Edit;
use ringfence_spec::{Code, Problem};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Arguments of `execute_code`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteCode {
    pub(super) code: String,
    pub(super) session: Option<SessionId>,
    pub(super) timeout_s: Option<f64>,
}

/// Arguments of `run_command`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommand {
    pub(super) command: String,
    pub(super) session: Option<SessionId>,
    pub(super) cwd: Option<String>,
    pub(super) stdin: Option<String>,
    pub(super) timeout_s: Option<f64>,
}

/// Arguments of `wait`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    pub(super) run_id: String,
    pub(super) timeout_s: Option<f64>,
    pub(super) cursor: Option<String>,
}

/// Arguments of `read_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    pub(super) session: SessionId,
    pub(super) path: String,
    pub(super) offset: Option<u64>,
    pub(super) limit: Option<u64>,
}

/// Arguments of `write_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    pub(super) session: SessionId,
    pub(super) path: String,
    pub(super) content: String,
    pub(super) encoding: Option<TextEncoding>,
}

/// How content is written in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum TextEncoding {
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

/// Arguments of `edit_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFile {
    pub(super) session: SessionId,
    pub(super) path: String,
    pub(super) edits: Vec<Edit>,
}

/// Arguments of `list_dir`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListDir {
    pub(super) session: SessionId,
    #[serde(default = "workspace")]
    pub(super) path: String,
    pub(super) depth: Option<u64>,
}

/// Arguments of `grep`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grep {
    pub(super) session: SessionId,
    pub(super) pattern: String,
    #[serde(default = "workspace")]
    pub(super) path: String,
    pub(super) glob: Option<String>,
    #[serde(default)]
    pub(super) literal: bool,
    #[serde(default)]
    pub(super) ignore_case: bool,
    pub(super) context: Option<usize>,
    pub(super) limit: Option<usize>,
}

/// Arguments of `search`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    pub(super) session: SessionId,
    pub(super) query: String,
    pub(super) limit: Option<usize>,
    pub(super) filters: Option<Filters>,
}

/// Files that are searched.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filters {
    pub(super) glob: Option<String>,
    pub(super) language: Option<String>,
}

/// Arguments of `index`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    pub(super) session: SessionId,
    #[serde(default = "workspace")]
    pub(super) path: String,
}

/// Arguments of `session`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OneSession {
    pub(super) action: Action,
    pub(super) session: Option<SessionId>,
    pub(super) cell: Option<u64>,
    pub(super) read_only: Option<bool>,
}

/// Action on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Create,
    Info,
    Fork,
    Rollback,
    Close,
}

fn workspace() -> String {
    ".".to_owned()
}

/// Deserializes a tool's arguments, or reports which one is wrong.
pub(super) fn read<T: DeserializeOwned>(tool: &str, arguments: JsonObject) -> Result<T, Problem> {
    serde_json::from_value(serde_json::Value::Object(arguments)).map_err(|error| {
        Problem::usage(Code::BadArguments, format!("cannot call `{tool}` with these arguments"))
            .cause(error)
            .hint(format!("call `{tool}` again with arguments that fit its input schema"))
    })
}
