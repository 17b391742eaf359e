//! MCP clients: the path of each one's configuration, and its format for a server.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ringfence_spec::{Code, Problem};

use super::edit::{Edit, Entry};

/// An MCP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Codex,
    Cursor,
    VsCode,
    Gemini,
    Zed,
}

/// Clients by their name on the command line.
const NAMES: [(&str, Client); 7] = [
    ("claude-code", Client::ClaudeCode),
    ("claude-desktop", Client::ClaudeDesktop),
    ("codex", Client::Codex),
    ("cursor", Client::Cursor),
    ("vscode", Client::VsCode),
    ("gemini", Client::Gemini),
    ("zed", Client::Zed),
];

/// Every client.
pub(super) fn all() -> impl Iterator<Item = Client> {
    NAMES.iter().map(|(_, client)| *client)
}

impl FromStr for Client {
    type Err = Problem;

    fn from_str(name: &str) -> Result<Self, Problem> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, client)| *client).ok_or_else(|| {
            let all: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
            Problem::usage(Code::UnknownClient, format!("there is no client `{name}`"))
                .hint(format!("one of {}", all.join(", ")))
        })
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, client)| client == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl Client {
    /// Returns true for a client that starts servers in no directory of a project.
    pub(super) fn starts_anywhere(self) -> bool {
        self == Self::ClaudeDesktop
    }

    /// Returns the path of the client's configuration, for a user with these variables.
    pub(super) fn config(self, var: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, Problem> {
        let set = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("HOME").ok_or_else(|| {
            Problem::usage(Code::NoHome, "cannot find the configuration: HOME is not set")
                .hint("name the file with `--config FILE`")
        })?;
        let config = || match std::env::consts::OS {
            "macos" => home.join("Library/Application Support"),
            _ => set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
        };
        Ok(match self {
            Self::ClaudeCode => {
                set("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone()).join(".claude.json")
            }
            Self::ClaudeDesktop => config().join("Claude/claude_desktop_config.json"),
            Self::Codex => {
                set("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml")
            }
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::VsCode => config().join("Code/User/mcp.json"),
            Self::Gemini => home.join(".gemini/settings.json"),
            Self::Zed => {
                // Zed uses this path on every system.
                let config = set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
                config.join("zed/settings.json")
            }
        })
    }

    /// Returns the format of its configuration.
    pub(super) fn edit(self) -> Edit {
        match self {
            Self::Codex => Edit::Toml { table: "mcp_servers" },
            Self::VsCode => Edit::Json { under: "servers", entry: Entry::Typed },
            Self::ClaudeCode => Edit::Json { under: "mcpServers", entry: Entry::Typed },
            Self::Zed => Edit::Json { under: "context_servers", entry: Entry::Custom },
            Self::ClaudeDesktop | Self::Cursor | Self::Gemini => {
                Edit::Json { under: "mcpServers", entry: Entry::Plain }
            }
        }
    }

    /// Returns how to make the client read a changed configuration.
    pub(super) fn start_again(self) -> &'static str {
        match self {
            Self::ClaudeCode => "start `claude` again",
            Self::ClaudeDesktop => "quit Claude and start it again",
            Self::Codex => "start `codex` again",
            Self::Cursor => "restart the server in Cursor's MCP settings",
            Self::VsCode => "restart the server with `MCP: List Servers` in the command palette",
            Self::Gemini => "start `gemini` again",
            Self::Zed => "restart the server in the agent panel's settings",
        }
    }

    /// Returns the step after which the client sees the server.
    pub(super) fn next_step(self) -> &'static str {
        match self {
            Self::ClaudeCode => "start `claude` again; `/mcp` lists ringfence",
            Self::ClaudeDesktop => "quit Claude and start it again",
            Self::Codex => "start `codex` again; `/mcp` lists ringfence",
            Self::Cursor => "Cursor asks once whether to enable ringfence, in its MCP settings",
            Self::VsCode => "start it with `MCP: List Servers` in the command palette",
            Self::Gemini => "start `gemini` again; `/mcp` lists ringfence",
            Self::Zed => "the agent panel's settings list ringfence",
        }
    }
}
