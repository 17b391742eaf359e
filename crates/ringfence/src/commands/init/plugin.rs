//! `ringfence init claude-code --plugin DIR`: the Claude Code plugin, with this program's own path in it. A plugin from
//! the repository has to search for the program; one that is written here does not.

use std::path::{Path, PathBuf};

use ringfence_spec::{Code, Problem};
use serde_json::{Value, json};

use super::edit::Server;
use super::file::ConfigFile;
use super::show;
use crate::commands::local;
use crate::present;

/// The files of the plugin, as the repository has them.
const MANIFEST: &str =
    include_str!("../../../../../plugins/claude-code/.claude-plugin/plugin.json");
const SERVERS: &str = include_str!("../../../../../plugins/claude-code/.mcp.json");
const HOOKS: &str = include_str!("../../../../../plugins/claude-code/hooks/hooks.json");

/// Writes the plugin to a directory, or takes it back.
pub(super) fn init(dir: &Path, server: &Server, undo: bool, dry_run: bool) -> Result<(), Problem> {
    let dir = std::path::absolute(dir)
        .map_err(|e| Problem::usage(Code::BadValue, "`--plugin` has a bad value").cause(e))?;
    let place = local::caller()?;
    for (name, text) in files(server)? {
        let file = ConfigFile::read(&dir.join(name), &place)?;
        let before = file.text.as_deref().unwrap_or_default();
        match (&file.text, undo) {
            (None, true) => continue,
            (Some(before), true) if *before != text => {
                present::note(&format!(
                    "{} is not as it was written, and stays",
                    file.path.display()
                ));
                continue;
            }
            (Some(before), false) if *before == text => continue,
            _ => {}
        }
        show(&file.path, before, if undo { "" } else { &text });
        match (dry_run, undo) {
            (true, _) => {}
            (false, true) => file.delete()?,
            (false, false) => {
                if let Some(kept) = file.keep()? {
                    present::note(&format!("what was there is in {}", kept.display()));
                }
                file.replace(&text)?;
            }
        }
    }
    if !dry_run && !undo {
        present::note(&format!("start Claude Code with `claude --plugin-dir {}`", dir.display()));
    }
    Ok(())
}

/// Names and texts of the plugin's files.
fn files(server: &Server) -> Result<Vec<(PathBuf, String)>, Problem> {
    let mut servers = parsed(SERVERS)?;
    let entry = &mut servers["mcpServers"]["ringfence"];
    entry["command"] = json!(server.command);
    entry["args"] = json!(server.arguments);
    let mut hooks = parsed(HOOKS)?;
    let command = format!("{} hook claude-code || exit 2", quoted(&server.command));
    hooks["hooks"]["PreToolUse"][0]["hooks"][0]["command"] = json!(command);
    Ok(vec![
        (".claude-plugin/plugin.json".into(), MANIFEST.to_owned()),
        (".mcp.json".into(), pretty(&servers)),
        ("hooks/hooks.json".into(), pretty(&hooks)),
    ])
}

fn parsed(text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text)
        .map_err(|e| Problem::internal(Code::Internal, "a file of the plugin is broken").cause(e))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Quotes a path for a shell: the client gives the hook's command to one.
fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_testing::BoundedCommand as _;

    #[test]
    fn a_path_is_one_word_for_a_shell_whatever_it_holds() {
        for path in ["/usr/bin/ringfence", "/a b/it's $(x) \"y\"/ringfence"] {
            let script = format!("printf %s {}", quoted(path));
            let mut shell = std::process::Command::new("sh");
            let printed = shell.args(["-c", &script]).bounded_output().unwrap().stdout;
            assert_eq!(String::from_utf8(printed).unwrap(), path);
        }
    }
}
