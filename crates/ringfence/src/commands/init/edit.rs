//! One server in a configuration, put in, found and taken out. Everything else stays as it is: other servers, order,
//! indentation, comments. Pure.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use toml_edit::{Array, DocumentMut, Item, Table, value};

/// Its name in every client.
const NAME: &str = "ringfence";

/// How a client is to start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) command: String,
    pub(super) arguments: Vec<String>,
}

/// The shape of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// JSON, with comments where the client allows them.
    Json {
        /// The key that holds the servers.
        under: &'static str,
        /// What one looks like.
        entry: Entry,
    },
    /// TOML.
    Toml {
        /// The table that holds the servers.
        table: &'static str,
    },
}

/// What a server looks like in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// `command` and `args`.
    Plain,
    /// And `type`.
    Typed,
    /// And `source` and `env`.
    Custom,
}

impl Edit {
    /// The text with the server in it.
    pub(super) fn put(self, text: &str, server: &Server) -> Result<String, String> {
        if self.get(text)?.as_ref() == Some(server) {
            return Ok(text.to_owned());
        }
        match self {
            Self::Json { under, entry } => {
                let root = parse_json(text)?;
                let servers = object(&root)?;
                let servers = servers
                    .object_value_or_create(under)
                    .ok_or_else(|| format!("`{under}` is not an object"))?;
                let value = entry.value(server);
                match servers.get(NAME) {
                    Some(ours) => ours.set_value(value),
                    None => drop(servers.append(NAME, value)),
                }
                Ok(ended(root.to_string()))
            }
            Self::Toml { table } => {
                let mut document = parse_toml(text)?;
                let servers = document.entry(table).or_insert_with(|| {
                    let mut servers = Table::new();
                    // Only the tables in it are written.
                    servers.set_implicit(true);
                    Item::Table(servers)
                });
                let servers = servers
                    .as_table_like_mut()
                    .ok_or_else(|| format!("`{table}` is not a table"))?;
                let mut ours = Table::new();
                ours.insert("command", value(&server.command));
                let arguments: Array = server.arguments.iter().map(String::as_str).collect();
                ours.insert("args", value(arguments));
                servers.insert(NAME, Item::Table(ours));
                Ok(ended(document.to_string()))
            }
        }
    }

    /// The server that the text has, if it has it.
    pub(super) fn get(self, text: &str) -> Result<Option<Server>, String> {
        match self {
            Self::Json { under, .. } => {
                let root = parse_json(text)?;
                let servers = root.object_value().and_then(|root| root.object_value(under));
                let ours = servers.and_then(|servers| servers.object_value(NAME));
                Ok(ours.and_then(|ours| {
                    let string = |node: jsonc_parser::cst::CstNode| {
                        node.as_string_lit()?.decoded_value().ok()
                    };
                    let command = string(ours.get("command")?.value()?)?;
                    let arguments = ours.array_value("args")?.elements();
                    let arguments = arguments.into_iter().map(string).collect::<Option<_>>()?;
                    Some(Server { command, arguments })
                }))
            }
            Self::Toml { table } => {
                let document = parse_toml(text)?;
                let ours = document.get(table).and_then(|servers| servers.get(NAME));
                Ok(ours.and_then(|ours| {
                    let command = ours.get("command")?.as_str()?.to_owned();
                    let arguments = ours.get("args")?.as_array()?.iter();
                    let arguments = arguments
                        .map(|argument| argument.as_str().map(str::to_owned))
                        .collect::<Option<_>>()?;
                    Some(Server { command, arguments })
                }))
            }
        }
    }

    /// The text without it; `None` if it has none.
    pub(super) fn remove(self, text: &str) -> Result<Option<String>, String> {
        match self {
            Self::Json { under, .. } => {
                let root = parse_json(text)?;
                let servers = root.object_value().and_then(|root| root.object_value(under));
                let Some(ours) = servers.and_then(|servers| servers.get(NAME)) else {
                    return Ok(None);
                };
                ours.remove();
                Ok(Some(root.to_string()))
            }
            Self::Toml { table } => {
                let mut document = parse_toml(text)?;
                let servers = document.get_mut(table).and_then(Item::as_table_like_mut);
                let Some(_) = servers.and_then(|servers| servers.remove(NAME)) else {
                    return Ok(None);
                };
                Ok(Some(document.to_string()))
            }
        }
    }
}

impl Entry {
    fn value(self, server: &Server) -> CstInputValue {
        let text = |text: &str| CstInputValue::String(text.to_owned());
        let mut fields = match self {
            Self::Plain => Vec::new(),
            Self::Typed => vec![("type".to_owned(), text("stdio"))],
            Self::Custom => vec![("source".to_owned(), text("custom"))],
        };
        let arguments = server.arguments.iter().map(|argument| text(argument)).collect();
        fields.push(("command".to_owned(), text(&server.command)));
        fields.push(("args".to_owned(), CstInputValue::Array(arguments)));
        if self == Self::Custom {
            fields.push(("env".to_owned(), CstInputValue::Object(Vec::new())));
        }
        CstInputValue::Object(fields)
    }
}

fn parse_json(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())
}

/// The object that a configuration is; made where there is nothing yet.
fn object(root: &CstRootNode) -> Result<CstObject, String> {
    root.object_value_or_create().ok_or_else(|| "it is not an object".to_owned())
}

fn parse_toml(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| error.to_string())
}

/// A text file ends with a line.
fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Edit = Edit::Json { under: "mcpServers", entry: Entry::Plain };
    const TOML: Edit = Edit::Toml { table: "mcp_servers" };

    fn server() -> Server {
        Server { command: "/opt/ring fence".into(), arguments: vec!["mcp".into()] }
    }

    #[test]
    fn what_is_put_in_is_found_and_comes_out_again() {
        for (edit, before) in [
            (JSON, "{}\n"),
            (
                JSON,
                "{\n  // mine\n  \"a\": [1, 2], // two\n  \"mcpServers\": {\"other\": {\"command\": \"x\"}}\n}\n",
            ),
            (JSON, "{\"mcpServers\":{}}\n"),
            (TOML, "model = \"x\" # best\n\n[mcp_servers.other]\ncommand = \"y\"\n"),
            (
                Edit::Json { under: "context_servers", entry: Entry::Custom },
                "{\n\t\"theme\": \"One\",\n}\n",
            ),
        ] {
            let after = edit.put(before, &server()).unwrap();
            assert_eq!(edit.get(&after).unwrap(), Some(server()), "{after}");
            assert_eq!(edit.put(&after, &server()).unwrap(), after, "twice is once");
            for kept in
                ["// mine", "// two", "\"other\"", "# best", "[mcp_servers.other]", "\t\"theme\""]
            {
                assert_eq!(after.contains(kept), before.contains(kept), "{kept}: {after}");
            }
            let out = edit.remove(&after).unwrap().unwrap();
            assert_eq!(edit.get(&out).unwrap(), None, "{out}");
            assert_eq!(edit.remove(&out).unwrap(), None);
        }
    }

    #[test]
    fn an_older_entry_is_replaced_and_nothing_else() {
        let before = "{\"mcpServers\": {\"ringfence\": {\"command\": \"old\"}, \"z\": {}}}\n";
        let after = JSON.put(before, &server()).unwrap();
        assert_eq!(JSON.get(&after).unwrap(), Some(server()));
        assert_eq!(after.matches("ringfence").count(), 1);
        assert!(after.contains("\"z\": {}") && !after.contains("old"));
    }

    #[test]
    fn what_is_no_configuration_is_left_alone() {
        for (edit, text) in [
            (JSON, "{"),
            (JSON, "[]"),
            (JSON, "{\"mcpServers\": []}"),
            (TOML, "a = "),
            (TOML, "mcp_servers = 3"),
        ] {
            assert!(edit.put(text, &server()).is_err(), "{text}");
        }
    }
}
