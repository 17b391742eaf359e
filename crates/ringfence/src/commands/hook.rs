//! `ringfence hook claude-code`: reads an agent's command and answers with the same command behind the fence. Refuses
//! input it cannot parse, and refuses if its answer would not be read: the command does not run.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_engine::HostContext;
use ringfence_engine::host::resolve;
use ringfence_spec::{Code, Problem};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::HookArgs;
use crate::commands::local;
use crate::settings::Surroundings;
use crate::{parse, present};

/// Exit code by the agent's convention: do not run the command, and show the model the reason.
const REFUSE: u8 = 2;

/// Maximum size of the input.
const BYTES_MAX: u64 = 16 << 20;

/// The agent's tools that run `command` in a shell.
const SHELLS: &[&str] = &["Bash", "Monitor"];

/// Answers one request.
pub(crate) fn hook(args: &HookArgs) -> ExitCode {
    let mut question = String::new();
    let answer = std::io::stdin()
        .take(BYTES_MAX)
        .read_to_string(&mut question)
        .map_err(|e| Problem::usage(Code::HookInput, "cannot read what is to run").cause(e))
        .and_then(|_| answer(&question, args, &local::caller()?, &Surroundings::real(false)?))
        .and_then(|answer| say(&answer));
    match answer {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            present::problem(&problem);
            ExitCode::from(REFUSE)
        }
    }
}

/// Writes the answer. The agent takes a missing answer as consent to the original command.
fn say(answer: &Value) -> Result<(), Problem> {
    let lost = |why: String| {
        Problem::cannot_build(
            Code::HookAnswer,
            "the hook's answer cannot be written; the command was not run",
        )
        .cause(why)
    };
    let stat = rustix::fs::fstat(rustix::stdio::stdout()).map_err(|e| lost(e.to_string()))?;
    // A closed stdout becomes /dev/null.
    if stat.st_rdev == rustix::fs::makedev(1, 3) {
        return Err(lost("stdout is /dev/null or closed".to_owned()));
    }
    // Bypass the buffer of this process, which would be flushed again at exit.
    let mut out = rustix::io::dup(rustix::stdio::stdout())
        .map(std::fs::File::from)
        .map_err(|e| lost(e.to_string()))?;
    out.write_all(format!("{answer}\n").as_bytes()).map_err(|e| lost(e.to_string()))
}

/// The fields of a request that are used here.
#[derive(Deserialize)]
struct Question {
    tool_name: String,
    tool_input: Map<String, Value>,
    /// The agent's working directory.
    cwd: Option<PathBuf>,
}

fn answer(
    question: &str,
    args: &HookArgs,
    place: &HostContext,
    around: &Surroundings,
) -> Result<Value, Problem> {
    if args.client != "claude-code" {
        return Err(Problem::usage(
            Code::UnknownClient,
            format!("there is no hook for `{}`", args.client),
        )
        .hint("the one there is: claude-code"));
    }
    let nonsense = |why: String| {
        Problem::usage(Code::HookInput, "cannot understand what is to run; it was not run")
            .cause(why)
    };
    let Question { tool_name, mut tool_input, cwd } =
        serde_json::from_str(question).map_err(|e| nonsense(e.to_string()))?;
    if !SHELLS.contains(&tool_name.as_str()) {
        return Err(nonsense(format!(
            "`{tool_name}` is none of the shells this hook knows: {}",
            SHELLS.join(", ")
        )));
    }
    let Some(Value::String(command)) = tool_input.get("command") else {
        return Err(nonsense("there is no `command`".to_owned()));
    };
    parse::check_flags("run", &args.arguments, around)?;
    let own = own_path()?;
    for dir in cwd.into_iter().chain(std::env::current_dir()) {
        if resolve(&dir).is_ok_and(|dir| own.starts_with(dir.found.path)) {
            return Err(in_reach(&own));
        }
    }
    if place.written_by_runs(&own).is_some() {
        return Err(in_reach(&own));
    }
    let fenced = fenced(&own, command, &args.arguments)?;
    tool_input.insert("command".to_owned(), Value::String(fenced));
    let (decision, why) = if args.ask {
        ("ask", "behind the fence, if you agree")
    } else {
        ("allow", "behind the fence")
    };
    Ok(json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": why,
        "updatedInput": tool_input,
    }}))
}

fn own_path() -> Result<PathBuf, Problem> {
    std::env::current_exe().map_err(|e| {
        Problem::internal(Code::Hook, "cannot tell where this program is; the command was not run")
            .cause(e)
    })
}

/// The problem of a program in a directory that the agent may write, or that runs have written: it could be replaced before the
/// next command.
fn in_reach(own: &Path) -> Problem {
    let message = format!(
        "`{}` is in a directory that commands can write, and could be replaced there; the command was not run",
        own.display()
    );
    Problem::refused(Code::HookInReach, message).hint("install ringfence outside of the project")
}

/// Wraps a command to run behind the fence.
fn fenced(own: &Path, command: &str, flags: &[String]) -> Result<String, Problem> {
    let own = own.to_str().ok_or_else(|| {
        Problem::internal(Code::Hook, "this program's path is no text; the command was not run")
    })?;
    let mut words = vec![quoted(own), "run".to_owned()];
    words.extend(flags.iter().map(|flag| quoted(flag)));
    words.extend(["--".to_owned(), "bash".to_owned(), "-c".to_owned(), quoted(command)]);
    Ok(words.join(" "))
}

/// Quotes any text as one shell word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(arguments: &[&str]) -> HookArgs {
        let arguments = arguments.iter().map(|&flag| flag.to_owned()).collect();
        HookArgs { client: "claude-code".into(), ask: false, arguments }
    }

    /// Answers in a place where no run has been and without settings: the checkout and its user may have some.
    fn answer(question: &str, args: &HookArgs) -> Result<Value, Problem> {
        let none = Path::new("/nonexistent");
        let around = Surroundings {
            environment: std::collections::BTreeMap::new(),
            cwd: none.into(),
            ceilings: none.into(),
            ..Surroundings::real(false)?
        };
        super::answer(question, args, &HostContext::here(none)?, &around)
    }

    #[test]
    fn a_command_comes_back_behind_the_fence_and_the_rest_as_it_was() {
        let question = json!({"tool_name": "Bash", "session_id": "x",
            "tool_input": {"command": "echo 'a'; rm -rf \"$HOME\"", "timeout": 5}});
        let answer = answer(&question.to_string(), &args(&["--memory", "1G"])).unwrap();
        let output = &answer["hookSpecificOutput"];
        assert_eq!(output["permissionDecision"], "allow");
        let command = output["updatedInput"]["command"].as_str().unwrap();
        assert!(
            command
                .ends_with(r#" run '--memory' '1G' -- bash -c 'echo '\''a'\''; rm -rf "$HOME"'"#),
            "{command}"
        );
        assert_eq!(output["updatedInput"]["timeout"], 5);
    }

    #[test]
    fn flags_that_run_does_not_take_are_no_fence() {
        let question = json!({"tool_name": "Bash", "tool_input": {"command": "id"}}).to_string();
        for flags in [&["--memroy", "1G"][..], &["--memory", "1X"], &["ls"]] {
            assert_eq!(answer(&question, &args(flags)).unwrap_err().code.as_str(), "bad_value");
        }
    }

    #[test]
    fn every_shell_of_the_agent_is_fenced() {
        for tool in SHELLS {
            let question = json!({"tool_name": tool, "tool_input": {"command": "id"}});
            let answer = answer(&question.to_string(), &args(&[])).unwrap();
            let command = &answer["hookSpecificOutput"]["updatedInput"]["command"];
            assert!(command.as_str().unwrap().ends_with(" run -- bash -c 'id'"), "{command}");
        }
    }

    #[test]
    fn a_fence_that_the_agent_can_replace_is_none() {
        let own = std::env::current_exe().unwrap();
        let question = json!({"tool_name": "Bash", "tool_input": {"command": "id"},
            "cwd": own.parent().unwrap()});
        assert_eq!(
            answer(&question.to_string(), &args(&[])).unwrap_err().code.as_str(),
            "hook_in_reach"
        );
    }

    #[test]
    fn what_is_not_understood_does_not_run() {
        for question in [
            "",
            "{}",
            "null",
            r#"{"tool_name": "Bash", "tool_input": {}}"#,
            r#"{"tool_name": "Bash", "tool_input": {"command": 3}}"#,
            r#"{"tool_name": "Write", "tool_input": {"command": "x"}}"#,
            r#"{"tool_name": "PowerShell", "tool_input": {"command": "x"}}"#,
            r#"{"tool_name": "Monitor", "tool_input": {"ws": "wss://example.org"}}"#,
        ] {
            assert!(answer(question, &args(&[])).is_err(), "{question}");
        }
    }
}
