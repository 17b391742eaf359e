//! Adds, finds and removes one server in a configuration. Keeps everything else: other servers, order, indentation,
//! comments, line endings. Pure.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::lines;

/// Name of the server in every client.
const NAME: &str = "ringfence";

/// Command that a client starts the server with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) command: String,
    pub(super) arguments: Vec<String>,
}

/// A server in a configuration that is started as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfiguredServer {
    pub(super) name: String,
    pub(super) server: Server,
    /// Names of the variables that the client sets for it.
    pub(super) variables: Vec<String>,
}

/// Format of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// JSON, with comments if the client allows them.
    Json {
        /// Key of the servers.
        under: &'static str,
        /// Format of an entry.
        entry: Entry,
    },
    /// TOML.
    Toml {
        /// Table of the servers.
        table: &'static str,
    },
}

/// Format of a server in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// `command` and `args`.
    Plain,
    /// `type`, `command` and `args`.
    Typed,
    /// `source`, `command`, `args` and `env`.
    Custom,
}

impl Edit {
    /// Returns the text with the server added or replaced.
    pub(super) fn put(self, text: &str, server: &Server) -> Result<String, String> {
        if self.get(text)?.as_ref() == Some(server) {
            return Ok(text.to_owned());
        }
        lines::edit_keeping_line_endings(text, |text| self.put_in(text, server))
    }

    fn put_in(self, text: &str, server: &Server) -> Result<String, String> {
        match self {
            Self::Json { under, entry } => {
                let root = parse_json(text, under)?;
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
                    // Write only the tables in it.
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

    /// Returns the server in the text, if any.
    pub(super) fn get(self, text: &str) -> Result<Option<Server>, String> {
        let text = lines::without_mark(text);
        match self {
            Self::Json { under, .. } => {
                let root = parse_json(text, under)?;
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

    /// Returns every server that the client starts as a command, with the variables it sets for it.
    pub(super) fn servers(self, text: &str) -> Result<Vec<ConfiguredServer>, String> {
        let text = lines::without_mark(text);
        match self {
            Self::Json { under, .. } => {
                let root = parse_json(text, under)?;
                let servers = root.object_value().and_then(|root| root.object_value(under));
                let entries = servers.map(|servers| servers.properties()).unwrap_or_default();
                Ok(entries.iter().filter_map(json_server).collect())
            }
            Self::Toml { table } => {
                let document = parse_toml(text)?;
                let servers = document.get(table).and_then(Item::as_table_like);
                let entries = servers.into_iter().flat_map(|servers| servers.iter());
                Ok(entries.filter_map(|(name, entry)| toml_server(name, entry)).collect())
            }
        }
    }

    /// Returns the text with another command for a server; everything else of its entry stays.
    pub(super) fn restart(self, text: &str, name: &str, server: &Server) -> Result<String, String> {
        let missing = || format!("there is no server `{name}`");
        lines::edit_keeping_line_endings(text, |text| match self {
            Self::Json { under, .. } => {
                let root = parse_json(text, under)?;
                let servers = root.object_value().and_then(|root| root.object_value(under));
                if let Some(servers) = &servers {
                    once(servers, name)?;
                }
                let entry = servers.and_then(|servers| servers.object_value(name));
                let entry = entry.ok_or_else(missing)?;
                let string = |text: &String| CstInputValue::String(text.clone());
                let arguments = server.arguments.iter().map(string).collect();
                let fields = [
                    ("command", string(&server.command)),
                    ("args", CstInputValue::Array(arguments)),
                ];
                for (field, value) in fields {
                    once(&entry, field)?;
                    match entry.get(field) {
                        Some(known) => known.set_value(value),
                        None => drop(entry.append(field, value)),
                    }
                }
                Ok(root.to_string())
            }
            Self::Toml { table } => {
                let mut document = parse_toml(text)?;
                let servers = document.get_mut(table).and_then(Item::as_table_like_mut);
                let entry = servers.and_then(|servers| servers.get_mut(name));
                let entry = entry.and_then(Item::as_table_like_mut).ok_or_else(missing)?;
                let arguments: Array = server.arguments.iter().map(String::as_str).collect();
                for (field, item) in
                    [("command", value(&server.command)), ("args", value(arguments))]
                {
                    match entry.get_mut(field) {
                        Some(known) => *known = item,
                        None => drop(entry.insert(field, item)),
                    }
                }
                Ok(document.to_string())
            }
        })
    }

    /// Returns true if the text has an entry by that name, whatever its value.
    pub(super) fn has(self, text: &str) -> Result<bool, String> {
        let text = lines::without_mark(text);
        match self {
            Self::Json { under, .. } => {
                let root = parse_json(text, under)?;
                let servers = root.object_value().and_then(|root| root.object_value(under));
                Ok(servers.is_some_and(|servers| servers.get(NAME).is_some()))
            }
            Self::Toml { table } => {
                let document = parse_toml(text)?;
                Ok(document.get(table).is_some_and(|servers| servers.get(NAME).is_some()))
            }
        }
    }

    /// Restores the entry that `former` has, or removes it if `former` has none.
    pub(super) fn put_back(self, text: &str, former: Option<&str>) -> Result<String, String> {
        let former = former.map(lines::without_mark);
        lines::edit_keeping_line_endings(text, |text| self.put_back_in(text, former))
    }

    fn put_back_in(self, text: &str, former: Option<&str>) -> Result<String, String> {
        match self {
            Self::Json { under, .. } => {
                let servers_of = |root: &CstRootNode| root.object_value()?.object_value(under);
                let root = parse_json(text, under)?;
                let former = former.map(|former| parse_json(former, under)).transpose()?;
                let former = former.as_ref().and_then(servers_of);
                let former = former.and_then(|servers| servers.get(NAME)?.value());
                let Some(ours) = servers_of(&root).and_then(|servers| servers.get(NAME)) else {
                    return Ok(text.to_owned());
                };
                match former {
                    Some(former) => ours.set_value(again(&former).ok_or("it was no JSON")?),
                    None => ours.remove(),
                }
                Ok(root.to_string())
            }
            Self::Toml { table } => {
                let mut document = parse_toml(text)?;
                let former = former.map(parse_toml).transpose()?;
                let former = former.as_ref().and_then(|former| former.get(table)?.get(NAME));
                let servers = document.get_mut(table).and_then(Item::as_table_like_mut);
                if let Some(servers) = servers {
                    match former {
                        Some(former) => drop(servers.insert(NAME, former.clone())),
                        None => drop(servers.remove(NAME)),
                    }
                }
                Ok(document.to_string())
            }
        }
    }
}

fn json_server(property: &jsonc_parser::cst::CstObjectProp) -> Option<ConfiguredServer> {
    let string = |node: CstNode| node.as_string_lit()?.decoded_value().ok();
    let name = property.name()?.decoded_value().ok()?;
    let entry = property.value()?.as_object()?;
    let command = string(entry.get("command")?.value()?)?;
    let arguments = match entry.array_value("args") {
        Some(array) => array.elements().into_iter().map(string).collect::<Option<_>>()?,
        None => Vec::new(),
    };
    let variables = entry.object_value("env").map(|env| env.properties()).unwrap_or_default();
    let variables = variables.iter().filter_map(|v| v.name()?.decoded_value().ok()).collect();
    Some(ConfiguredServer { name, server: Server { command, arguments }, variables })
}

fn toml_server(name: &str, entry: &Item) -> Option<ConfiguredServer> {
    let command = entry.get("command")?.as_str()?.to_owned();
    let arguments = match entry.get("args") {
        Some(array) => {
            let texts = array.as_array()?.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<_>>()?
        }
        None => Vec::new(),
    };
    let variables = entry.get("env").and_then(Item::as_table_like);
    let variables = variables.into_iter().flat_map(|env| env.iter());
    let variables = variables.map(|(name, _)| name.to_owned()).collect();
    let server = Server { command, arguments };
    Some(ConfiguredServer { name: name.to_owned(), server, variables })
}

/// Converts a parsed value to one that can be inserted elsewhere.
fn again(node: &CstNode) -> Option<CstInputValue> {
    if let Some(object) = node.as_object() {
        let fields = object.properties().into_iter().map(|property| {
            Some((property.name()?.decoded_value().ok()?, again(&property.value()?)?))
        });
        return Some(CstInputValue::Object(fields.collect::<Option<_>>()?));
    }
    if let Some(array) = node.as_array() {
        let elements = array.elements();
        return Some(CstInputValue::Array(elements.iter().map(again).collect::<Option<_>>()?));
    }
    if let Some(text) = node.as_string_lit() {
        return Some(CstInputValue::String(text.decoded_value().ok()?));
    }
    if let Some(number) = node.as_number_lit() {
        return Some(CstInputValue::Number(number.to_string()));
    }
    match node.as_boolean_lit() {
        Some(boolean) => Some(CstInputValue::Bool(boolean.value())),
        None => node.as_null_keyword().map(|_| CstInputValue::Null),
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

fn parse_json(text: &str, under: &str) -> Result<CstRootNode, String> {
    let root =
        CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())?;
    if let Some(top) = root.object_value() {
        once(&top, under)?;
        if let Some(servers) = top.object_value(under) {
            once(&servers, NAME)?;
        }
    }
    Ok(root)
}

/// Refuses a duplicate field, of which the client may read the other one.
fn once(object: &CstObject, name: &str) -> Result<(), String> {
    let properties = object.properties();
    let names = properties.iter().filter_map(|property| property.name()?.decoded_value().ok());
    if names.filter(|other| other == name).count() > 1 {
        return Err(format!("`{name}` is in it more than once"));
    }
    Ok(())
}

/// Returns the top-level object of a configuration, creating it if the text is empty.
fn object(root: &CstRootNode) -> Result<CstObject, String> {
    root.object_value_or_create().ok_or_else(|| "it is not an object".to_owned())
}

fn parse_toml(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| error.to_string())
}

/// Ends the text with a newline.
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
            let out = edit.put_back(&after, None).unwrap();
            assert!(!edit.has(&out).unwrap(), "{out}");
            assert_eq!(edit.put_back(&out, None).unwrap(), out);
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
    fn what_was_there_by_that_name_comes_back() {
        let mine = "{\"mcpServers\": {\"ringfence\": {\"command\": \"mine\", \"n\": [1, null, true], \"env\": {\"K\": \"V\"}}}}\n";
        let after = JSON.put(mine, &server()).unwrap().replace("{\"mcp", "{\"new\": 1, \"mcp");
        let back = JSON.put_back(&after, Some(mine)).unwrap();
        let [back, mine] = [&back, mine].map(ringfence_testing::Json::parse);
        assert_eq!(back["mcpServers"], mine["mcpServers"]);
        assert_eq!(back["new"], 1);
        let mine = "[mcp_servers.ringfence]\ncommand = \"mine\" # my own\n";
        let after = format!("model = \"m\"\n{}", TOML.put(mine, &server()).unwrap());
        let back = TOML.put_back(&after, Some(mine)).unwrap();
        assert_eq!(back, format!("model = \"m\"\n{mine}"));
    }

    #[test]
    fn lines_end_as_they_did_and_a_mark_stays() {
        for (edit, before) in [
            (TOML, "\u{feff}model = \"x\"\r\n\r\n[mcp_servers.other]\r\ncommand = \"y\"\r\n"),
            (JSON, "\u{feff}{\r\n  \"a\": 1\r\n}\r\n"),
        ] {
            let after = edit.put(before, &server()).unwrap();
            assert_eq!(edit.get(&after).unwrap(), Some(server()));
            assert!(after.starts_with('\u{feff}') && !after[3..].contains('\u{feff}'), "{after:?}");
            assert_eq!(after.matches('\n').count(), after.matches("\r\n").count(), "{after:?}");
            assert_eq!(edit.put(&after, &server()).unwrap(), after);
        }
        let mixed = "a = 1\r\nb = 2\nc = 3\r\n";
        let after = TOML.put(mixed, &server()).unwrap();
        assert!(after.starts_with(mixed), "{after:?}");
        assert!(after.ends_with("\"mcp\"]\r\n"), "{after:?}");
    }

    #[test]
    fn what_is_no_configuration_is_left_alone() {
        for (edit, text) in [
            (JSON, "{"),
            (JSON, "[]"),
            (JSON, "{\"mcpServers\": []}"),
            (JSON, "{\"mcpServers\": {}, \"mcpServers\": {}}"),
            (JSON, "{\"mcpServers\": {\"ringfence\": {}, \"\\u0072ingfence\": {}}}"),
            (TOML, "a = "),
            (TOML, "mcp_servers = 3"),
        ] {
            assert!(edit.put(text, &server()).is_err(), "{text}");
        }
    }
}
