//! `ringfence hook claude-code`: reads what an agent is about to run, and answers with the same behind the fence. Whatever it
//! cannot understand it refuses: the command does not run.

use std::io::Read as _;
use std::process::ExitCode;

use ringfence_spec::Problem;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::HookArgs;
use crate::present;

/// By the agent's convention: do not run it, and tell the model why.
const REFUSE: u8 = 2;

/// More than this is no command.
const BYTES_MAX: u64 = 16 << 20;

/// Answers one question.
pub(crate) fn hook(args: &HookArgs) -> ExitCode {
    let mut question = String::new();
    let answer = std::io::stdin()
        .take(BYTES_MAX)
        .read_to_string(&mut question)
        .map_err(|e| Problem::usage("hook_input", "cannot read what is to run").cause(e))
        .and_then(|_| answer(&question, args));
    match answer {
        Ok(answer) => {
            present::json(&answer);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            present::problem(&problem);
            ExitCode::from(REFUSE)
        }
    }
}

/// What is asked, as far as it is used here.
#[derive(Deserialize)]
struct Question {
    tool_name: String,
    tool_input: Map<String, Value>,
}

fn answer(question: &str, args: &HookArgs) -> Result<Value, Problem> {
    if args.client != "claude-code" {
        return Err(Problem::usage(
            "unknown_client",
            format!("there is no hook for `{}`", args.client),
        )
        .hint("the one there is: claude-code"));
    }
    let nonsense = |why: String| {
        Problem::usage("hook_input", "cannot understand what is to run; it was not run").cause(why)
    };
    let Question { tool_name, mut tool_input } =
        serde_json::from_str(question).map_err(|e| nonsense(e.to_string()))?;
    if tool_name != "Bash" {
        return Err(nonsense(format!("`{tool_name}` is not a command; this hook is for `Bash`")));
    }
    let Some(Value::String(command)) = tool_input.get("command") else {
        return Err(nonsense("there is no `command`".to_owned()));
    };
    tool_input.insert("command".to_owned(), Value::String(fenced(command, &args.arguments)?));
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

/// The same command behind the fence.
fn fenced(command: &str, flags: &[String]) -> Result<String, Problem> {
    let own =
        std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    let own = own.ok_or_else(|| {
        Problem::internal("hook", "cannot tell where this program is; the command was not run")
    })?;
    let mut words = vec![quoted(&own), "run".to_owned()];
    words.extend(flags.iter().map(|flag| quoted(flag)));
    words.extend(["--".to_owned(), "bash".to_owned(), "-c".to_owned(), quoted(command)]);
    Ok(words.join(" "))
}

/// One word of a shell, whatever it holds.
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
    fn what_is_not_understood_does_not_run() {
        for question in [
            "",
            "{}",
            "null",
            r#"{"tool_name": "Bash", "tool_input": {}}"#,
            r#"{"tool_name": "Bash", "tool_input": {"command": 3}}"#,
            r#"{"tool_name": "Write", "tool_input": {"command": "x"}}"#,
        ] {
            assert!(answer(question, &args(&[])).is_err(), "{question}");
        }
    }
}
