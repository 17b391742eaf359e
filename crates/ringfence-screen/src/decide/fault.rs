//! Finds rules that can match no call: a deny rule that never matches lets everything through without a sign.

use std::fmt::Write as _;

use super::glob::Glob;
use super::{AccessRule, CommandRule, Gaps, Rules};
use crate::shell::Word;

/// Directories that programs are found in by their name alone.
const PROGRAM_DIRS: [&str; 6] =
    ["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/"];

/// Names that people expect for the two tools that run something.
const OTHER_NAMES: [(&str, &str); 15] = [
    ("run", "run_command"),
    ("bash", "run_command"),
    ("sh", "run_command"),
    ("shell", "run_command"),
    ("command", "run_command"),
    ("terminal", "run_command"),
    ("hook", "run_command"),
    ("exec", "execute_code"),
    ("execute", "execute_code"),
    ("batch", "execute_code"),
    ("code", "execute_code"),
    ("python", "execute_code"),
    ("repl", "execute_code"),
    ("ls", "list_dir"),
    ("list_directory", "list_dir"),
];

/// A rule that can match no call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFault {
    /// The rule's name, or its place.
    pub rule: String,
    /// The reason.
    pub cause: String,
    /// What to write instead.
    pub hint: String,
}

impl Rules {
    /// Returns the first rule with a pattern that matches nothing, where `tools` are the names that calls have.
    pub fn fault(&self, tools: &[&str]) -> Option<RuleFault> {
        let lists = [("deny", &self.deny), ("allow", &self.allow)];
        let mut rules =
            lists.iter().flat_map(|(list, rules)| (0..).zip(*rules).map(move |at| (*list, at)));
        rules.find_map(|(list, (at, rule))| {
            let (cause, hint) = fault_of(rule, tools, list == "deny")?;
            Some(RuleFault { rule: rule.shown_name(list, at), cause, hint })
        })
    }
}

/// The reason and the way out.
type Fault = (String, String);

fn fault_of(rule: &AccessRule, tools: &[&str], denies: bool) -> Option<Fault> {
    let fault = rule.tools.iter().find_map(|glob| of_tool(glob, tools));
    let fault = fault.or_else(|| rule.paths.iter().find_map(|glob| of_path("paths", glob)));
    let fault = fault.or_else(|| rule.commands.iter().find_map(of_command));
    let fits = |tool: &str| rule.tools.is_empty() || rule.matches_tool(tool);
    fault.or_else(|| {
        // Of an allow rule one of the lists is enough.
        if denies && !rule.commands.is_empty() && !fits("run_command") {
            let cause = "`commands` match calls of `run_command` only, which `tools` leaves out";
            return Some((
                cause.into(),
                "add `run_command` to `tools`, or leave `tools` out".into(),
            ));
        }
        let of_programs =
            tools.iter().filter(|tool| fits(tool)).all(|tool| *tool == "execute_code");
        if denies && !rule.paths.is_empty() && of_programs {
            let cause = "`paths` are those of commands and file tools; Python code names none";
            return Some((
                cause.into(),
                "leave out `paths`: a program sees its own directory only".into(),
            ));
        }
        None
    })
}

fn of_tool(glob: &Glob, tools: &[&str]) -> Option<Fault> {
    let is_known = |tool: &str| glob.matches(&Word::known(tool), Gaps::Differ);
    if tools.iter().any(|tool| is_known(tool)) {
        return None;
    }
    let text = String::from(glob.clone());
    let lower = text.to_lowercase().replace('-', "_");
    let other = OTHER_NAMES.iter().find(|(name, _)| *name == lower).map(|(_, tool)| *tool);
    let near = other.or_else(|| {
        let is_near =
            |tool: &&&str| **tool == lower || tool.replace('_', "") == lower.replace('_', "");
        tools.iter().find(is_near).copied()
    });
    let hint = match near.filter(|near| tools.contains(near)) {
        Some(tool) => format!("did you mean `{tool}`?"),
        None => format!("the tools are {}", tools.join(", ")),
    };
    Some((format!("`tools` has `{text}`, which is no tool's name"), hint))
}

fn of_path(key: &str, glob: &Glob) -> Option<Fault> {
    let text = String::from(glob.clone());
    let never = |why: &str, hint: String| Some((format!("`{key}` has `{text}`: {why}"), hint));
    let rest = text.trim_start_matches("./");
    if !text.starts_with(['/', '~', '\\']) && !text.starts_with("**") {
        return never(
            "a path is compared in its absolute form, and a relative pattern matches none",
            format!(
                "write `/workspace/{rest}` for sessions, or the absolute path of a project; `**/{rest}` is anywhere"
            ),
        );
    }
    let parts = text.split('/').collect::<Vec<_>>();
    if parts.contains(&".") || parts.contains(&"..") || text.contains("//") {
        return never(
            "`.`, `..` and empty parts are taken out of paths before they are compared",
            "leave them out".into(),
        );
    }
    if text.len() > 1 && text.ends_with('/') {
        return never(
            "no path ends with a slash",
            format!("write `{text}**` for what is below it"),
        );
    }
    None
}

fn of_command(command: &CommandRule) -> Option<Fault> {
    let program = command.program.as_ref().and_then(|glob| of_program(&String::from(glob.clone())));
    program
        .or_else(|| command.options.iter().find_map(|option| of_option(option)))
        .or_else(|| command.writes.iter().find_map(|glob| of_path("writes", glob)))
}

fn of_program(text: &str) -> Option<Fault> {
    let said = |why: &str| format!("`program` is `{text}`: {why}");
    if text.is_empty() {
        return Some((
            said("no program has an empty name"),
            "leave it out for every program".into(),
        ));
    }
    let mut words = text.split_whitespace();
    if let (Some(first), Some(_)) = (words.next(), words.next()) {
        let list = |words: &[&str]| {
            let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            quoted.join(", ")
        };
        let (options, arguments): (Vec<&str>, Vec<&str>) =
            text.split_whitespace().skip(1).partition(|word| word.starts_with('-'));
        let mut hint = format!("write `{{ program = \"{first}\"");
        for (key, words) in [("options", options), ("arguments", arguments)] {
            if !words.is_empty() {
                let _ = write!(hint, ", {key} = [{}]", list(&words));
            }
        }
        return Some((said("a program is one word"), format!("{hint} }}`")));
    }
    let in_place = PROGRAM_DIRS.iter().find_map(|dir| text.strip_prefix(dir));
    match in_place {
        // A pattern over such a directory is about every program in it.
        Some(name) if !name.contains(['/', '*', '?', '[']) && !name.is_empty() => Some((
            said("a path matches only a command that is written with it"),
            format!("write `{name}`, which matches it with any path and without one"),
        )),
        _ => None,
    }
}

fn of_option(text: &str) -> Option<Fault> {
    let wrong = text.split('|').find(|spelling| !spelling.starts_with(['-', '+']))?;
    let cause = format!("`options` has `{text}`: an option begins with a dash");
    let hint = match wrong.chars().count() {
        0 => "leave out the empty spelling".to_owned(),
        1 => format!("write `-{wrong}`"),
        _ => format!("write `--{wrong}`; a word without a dash stands in `arguments`"),
    };
    Some((cause, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [&str; 4] = ["execute_code", "list_dir", "read_file", "run_command"];

    /// The first fault of a deny rule.
    fn fault(rule: &str) -> Option<(String, String)> {
        let rules = serde_json::from_str::<Rules>(&format!(r#"{{"deny": [{rule}]}}"#));
        let rules = rules.unwrap_or_else(|e| panic!("{rule}: {e}"));
        rules.fault(&TOOLS).map(|fault| (fault.cause, fault.hint))
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_named_with_what_to_write() {
        for (rule, cause, hint) in [
            (r#"{"tools": ["run"]}"#, "no tool's name", "did you mean `run_command`?"),
            (r#"{"tools": ["Bash"]}"#, "no tool's name", "did you mean `run_command`?"),
            (r#"{"tools": ["python"]}"#, "no tool's name", "did you mean `execute_code`?"),
            (r#"{"tools": ["ReadFile"]}"#, "no tool's name", "did you mean `read_file`?"),
            (r#"{"tools": ["x*"]}"#, "no tool's name", "the tools are execute_code, list_dir,"),
            (r#"{"paths": ["docs/**"]}"#, "relative", "write `/workspace/docs/**` for sessions"),
            (r#"{"paths": ["./docs/*"]}"#, "relative", "write `/workspace/docs/*` for sessions"),
            (r#"{"paths": ["*.md"]}"#, "relative", "`**/*.md` is anywhere"),
            (r#"{"paths": ["/a/../b"]}"#, "taken out", "leave them out"),
            (r#"{"paths": ["/a//b"]}"#, "taken out", "leave them out"),
            (r#"{"paths": ["/srv/docs/"]}"#, "slash", "write `/srv/docs/**`"),
            (r#"{"commands": [{"writes": ["docs/x"]}]}"#, "`writes` has", "/workspace/docs/x"),
            (r#"{"commands": [{"program": "/usr/bin/git"}]}"#, "written with it", "write `git`"),
            (
                r#"{"commands": [{"program": "git push --force"}]}"#,
                "one word",
                r#"write `{ program = "git", options = ["--force"], arguments = ["push"] }`"#,
            ),
            (r#"{"commands": [{"program": ""}]}"#, "empty name", "leave it out"),
            (r#"{"commands": [{"options": ["r"]}]}"#, "with a dash", "write `-r`"),
            (r#"{"commands": [{"options": ["-r|recursive"]}]}"#, "a dash", "write `--recursive`"),
            (
                r#"{"tools": ["read_file"], "commands": [{"program": "git"}]}"#,
                "calls of `run_command` only",
                "add `run_command`",
            ),
            (r#"{"tools": ["execute_code"], "paths": ["/a"]}"#, "names none", "leave out `paths`"),
        ] {
            let (found, way) = fault(rule).unwrap_or_else(|| panic!("{rule}"));
            assert!(found.contains(cause), "{rule}: {found}");
            assert!(way.contains(hint), "{rule}: {way}");
        }
        let rules: Rules = serde_json::from_str(r#"{"allow": [{}, {"tools": ["run"]}]}"#).unwrap();
        assert_eq!(rules.fault(&TOOLS).unwrap().rule, "allow[1]");
    }

    #[test]
    fn patterns_that_match_something_have_no_fault() {
        for rule in [
            "{}",
            r#"{"tools": ["*"], "paths": ["**/.env*", "/", "~/.ssh/**", "/workspace/docs"]}"#,
            r#"{"tools": ["read_*"], "paths": ["**"]}"#,
            r#"{"tools": ["*_command"], "commands": [{"program": "git*", "arguments": ["push"]}]}"#,
            r#"{"commands": [{"program": "/usr/local/bin/*"}, {"program": "/opt/x/deploy"}, {"program": "./x"}]}"#,
            r#"{"commands": [{"program": "chmod", "options": ["-R|--recursive", "+x"]}, {}]}"#,
        ] {
            assert_eq!(fault(rule), None, "{rule}");
        }
        let rules = r#"{"allow": [{"tools": ["execute_code"], "paths": ["/a"]}]}"#;
        assert_eq!(serde_json::from_str::<Rules>(rules).unwrap().fault(&TOOLS), None);
    }
}
