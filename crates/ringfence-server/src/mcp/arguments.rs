//! Arguments of each tool. Names and types are those of the schemas in `tools.rs`; a test checks that they match.
//! Unknown arguments are rejected: accepting one that does nothing would be a promise.

use ringfence_engine::SessionId;
use ringfence_engine::files::Edit;
use ringfence_spec::{Code, Problem, escape_name};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The flaw of a call of a file tool by a reader that has no session yet.
const NO_SESSION: &str = "`session` is missing";

/// Maximum number of wrong arguments that an error names.
const TOLD_MAX: usize = 5;

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

/// Encoding of content in an argument.
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

/// Removes arguments that are null, at any depth: some frameworks send every optional argument, null if there is none.
pub(super) fn leave_out_nulls(arguments: &mut JsonObject) {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(fields) => leave_out_nulls(fields),
            Value::Array(items) => items.iter_mut().for_each(clean),
            _ => {}
        }
    }
    arguments.retain(|_, value| !value.is_null());
    arguments.values_mut().for_each(clean);
}

/// Arguments that do not deserialize.
#[derive(Debug)]
pub(super) struct InvalidArguments(serde_json::Error);

/// Deserializes a tool's arguments.
pub(super) fn read<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, InvalidArguments> {
    T::deserialize(arguments).map_err(InvalidArguments)
}

/// Describes arguments that do not fit, by the tool's schema: the deserializer's own words name types of this program.
pub(super) fn problem(
    tool: &str,
    schema: Option<&JsonObject>,
    arguments: &JsonObject,
    InvalidArguments(error): InvalidArguments,
) -> Problem {
    let mut wrong = Vec::new();
    if let Some(schema) = schema {
        check_object("", schema, arguments, &mut wrong);
    }
    let hint = if wrong.iter().any(|flaw| flaw == NO_SESSION) {
        "files belong to a session: call the tool `session` with the action `create` and pass its id".to_owned()
    } else {
        format!("call `{tool}` again with arguments that fit its input schema")
    };
    if wrong.is_empty() {
        let message = format!("cannot call `{tool}` with these arguments");
        return Problem::usage(Code::BadArguments, message).cause(error).hint(hint);
    }
    Problem::usage(Code::BadArguments, format!("cannot call `{tool}`: {}", wrong.join("; ")))
        .hint(hint)
}

fn check_object(prefix: &str, schema: &JsonObject, given: &JsonObject, wrong: &mut Vec<String>) {
    let nothing = JsonObject::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&nothing);
    let required: Vec<_> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().collect();
    for name in &required {
        let name = name.as_str().unwrap_or_default();
        if !given.contains_key(name) && wrong.len() < TOLD_MAX {
            wrong.push(format!("`{prefix}{name}` is missing"));
        }
    }
    for (name, value) in given {
        if wrong.len() >= TOLD_MAX {
            return;
        }
        if let Some(schema) = properties.get(name) {
            check(&format!("{prefix}{name}"), schema, value, wrong);
        } else {
            let taken: Vec<_> = properties.keys().map(|name| format!("`{name}`")).collect();
            let (name, taken) = (escape_name(name), taken.join(", "));
            wrong.push(format!("there is no argument `{prefix}{name:.60}`, only {taken}"));
        }
    }
}

fn check(name: &str, schema: &Value, value: &Value, wrong: &mut Vec<String>) {
    match (schema["type"].as_str().unwrap_or_default(), value) {
        ("object", Value::Object(given)) => {
            if let Some(schema) = schema.as_object() {
                check_object(&format!("{name}."), schema, given, wrong);
            }
        }
        ("array", Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                if wrong.len() >= TOLD_MAX {
                    return;
                }
                check(&format!("{name}[{at}]"), &schema["items"], item, wrong);
            }
        }
        (kind, value) if !fits(kind, schema, value) => {
            wrong.push(format!("`{name}` is {}, not {}", described(value), wanted(kind, schema)));
        }
        _ => {}
    }
}

fn fits(kind: &str, schema: &Value, value: &Value) -> bool {
    let at_least = schema["minimum"].as_f64().unwrap_or(f64::MIN);
    match kind {
        "string" => {
            let listed = schema["enum"].as_array();
            value.is_string() && listed.is_none_or(|words| words.contains(value))
        }
        "integer" => (value.is_i64() || value.is_u64()) && value.as_f64() >= Some(at_least),
        "number" => value.as_f64() >= Some(at_least),
        "boolean" => value.is_boolean(),
        // The schema says nothing that is checked here.
        "" => true,
        _ => false,
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("the string `{:.40}`", escape_name(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn wanted(kind: &str, schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> =
            words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return format!("one of {}", words.join(", "));
    }
    let kind = match kind {
        "string" => "a string",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        _ => "an object",
    };
    let at_least = schema["minimum"].as_i64().map(|n| format!(" of at least {n}"));
    format!("{kind}{}", at_least.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(schema: &Value, given: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let (schema, given) = (schema.as_object().unwrap(), given.as_object().unwrap());
        check_object("", schema, given, &mut wrong);
        wrong
    }

    #[test]
    fn a_minimum_counts_for_every_number() {
        let schema = json!({"properties": {"n": {"type": "integer", "minimum": 1}}});
        for (given, is_wrong) in [(0, true), (-1, true), (1, false), (2, false)] {
            assert_eq!(!wrong(&schema, &json!({"n": given})).is_empty(), is_wrong, "{given}");
        }
        assert_eq!(
            wrong(&schema, &json!({"n": 0})),
            ["`n` is 0, not a whole number of at least 1"]
        );
    }

    #[test]
    fn what_the_schema_gives_no_plain_type_passes() {
        let schema = json!({"properties": {"a": {}, "b": {"type": ["string", "null"]}, "c": {"type": "array"}}});
        let given = json!({"a": [1], "b": "x", "c": [1, "x"]});
        assert_eq!(wrong(&schema, &given), [""; 0]);
    }

    #[test]
    fn a_reader_without_a_session_is_told_to_create_one() {
        let schema = json!({"required": ["session", "path"], "properties": {}});
        let hint = |given: &Value| {
            let given = given.as_object().unwrap();
            let invalid = read::<ReadFile>(given).unwrap_err();
            let problem = problem("read_file", schema.as_object(), given, invalid);
            problem.hint.unwrap().words(ringfence_spec::Face::Mcp)
        };
        assert!(hint(&json!({})).contains("action `create`"));
        assert!(hint(&json!({"session": "s"})).contains("input schema"));
    }

    #[test]
    fn a_long_list_of_wrong_items_is_not_gathered() {
        let schema = json!({"required": ["b"], "properties": {"a": {"type": "array", "items": {"type": "string"}}}});
        let numbers: Vec<u32> = (0..1000).collect();
        let wrong = wrong(&schema, &json!({"a": numbers, "c": 1}));
        assert_eq!((wrong.len(), wrong[0].as_str()), (TOLD_MAX, "`b` is missing"));
    }
}
