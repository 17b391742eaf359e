//! Help texts: commands by task, examples, defaults, and only the flags that mean something to a command. Built only to be
//! printed: parsing a valid command line does not pay for it.

use std::fmt::Write as _;

use clap::{Args as _, Command, CommandFactory as _};

use crate::cli::{Cli, PolicyFlags, ServiceFlags};
use crate::settings::{Subject, foreign_flags};
use crate::style::{self, Look};

/// Commands by task, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run code", &["run", "exec", "batch", "repl", "agent"]),
    ("Sessions", &["session", "grep", "search", "index", "chunk"]),
    ("Servers", &["mcp", "serve", "token"]),
    ("Policy", &["policy", "check", "explain"]),
    ("Audit", &["audit"]),
    ("Setup", &["doctor", "init", "wrap", "completions", "bench"]),
];

/// Kind of run that a command starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Commands,
    Code,
    Both,
}

const RUNS: &[(&str, Runs)] = &[
    ("run", Runs::Commands),
    ("agent", Runs::Commands),
    ("exec", Runs::Code),
    ("repl", Runs::Code),
    ("batch", Runs::Both),
    ("mcp", Runs::Both),
    ("serve", Runs::Both),
    ("explain", Runs::Both),
];

/// Default of a limit: of commands, of Python.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("timeout", "10m; none on a terminal", "30s"),
    ("cpu", "none", "30s"),
    ("memory", "4G or half the host's", "512M"),
    ("pids", "512", "32"),
    ("fds", "4096", "64"),
    ("disk", "20G", "100M"),
    ("output", "10M", "10M"),
    ("preset", "workspace", "data"),
];

/// Defaults of `agent`, whose preset is `agent`, where they differ from those of other commands.
const AGENT_DEFAULTS: &[(&str, &str)] =
    &[("timeout", "none"), ("pids", "4096"), ("preset", "agent")];

/// Examples, by the words of the command.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "",
        &[
            ("ringfence run -- make test", "a command that can write this directory only"),
            ("ringfence exec -c 'print(6*7)'", "one Python program"),
            ("ringfence doctor", "what this host can enforce"),
        ],
    ),
    (
        "run",
        &[
            ("ringfence run -- make test", "write here, read the system, no network"),
            (
                "ringfence run --net allow:pypi -- sh -c 'python3 -m venv .venv && .venv/bin/pip install requests'",
                "reach one registry",
            ),
            ("ringfence run --json --timeout 30s -- ./script.sh", "the outcome as JSON"),
        ],
    ),
    (
        "exec",
        &[
            ("ringfence exec -c 'print(6*7)'", ""),
            (
                "ringfence exec --file data.csv --artifacts out report.py",
                "copy a file in, and results out",
            ),
            ("echo 'print(1)' | ringfence exec -", ""),
        ],
    ),
    (
        "batch",
        &[
            ("ringfence batch items.jsonl > outcomes.jsonl", "one JSON object on each line"),
            (
                "ringfence batch --resume outcomes.jsonl items.jsonl",
                "only items that have no outcome yet",
            ),
            (r#"echo '{"id": 1, "code": "print(6*7)"}' | ringfence batch"#, ""),
        ],
    ),
    (
        "repl",
        &[
            ("ringfence repl", "leave with exit(), quit() or Ctrl-D"),
            ("ringfence repl --session ID", "on the files of a session"),
            ("ringfence repl < cells.txt", "in a pipe or file a cell ends at an empty line"),
        ],
    ),
    (
        "agent",
        &[
            ("ringfence agent claude", ""),
            ("ringfence agent --net allow:pypi,github codex exec 'fix the tests'", ""),
        ],
    ),
    ("check", &[("ringfence check --preset strict program.py", "exit 126 if it would be refused")]),
    (
        "explain",
        &[
            ("ringfence explain -- make", "the plan of a command"),
            ("ringfence explain --python", "the plan of Python runs"),
        ],
    ),
    (
        "policy",
        &[
            ("ringfence policy show --preset minimal", "each value and where it came from"),
            ("ringfence policy check ringfence.toml", ""),
        ],
    ),
    (
        "session",
        &[
            ("id=$(ringfence session new)", ""),
            ("ringfence session put $id data.csv", ""),
            ("ringfence exec --session $id -c 'print(open(\"data.csv\").read())'", ""),
            ("ringfence session ls -l", "age, size and expiry"),
        ],
    ),
    ("grep", &[("ringfence grep --session ID -i -t py 'def \\w+'", "")]),
    ("search", &[("ringfence search --session ID where are retries configured", "")]),
    ("index", &[("ringfence index --session ID", "")]),
    ("chunk", &[("ringfence chunk --session ID --lines 40 src/main.py", "")]),
    (
        "audit",
        &[
            ("ringfence audit ls --since 2h --status blocked", "refused in the last two hours"),
            ("ringfence audit show 3f2a", "one run, by the beginning of its id"),
            ("ringfence audit verify", "exit 1 if the ledger was changed"),
        ],
    ),
    (
        "mcp",
        &[
            ("ringfence init claude-code", "let a client start it"),
            ("ringfence mcp --redact on --memory 1G", ""),
        ],
    ),
    (
        "serve",
        &[
            ("ringfence token new --name ada", "a token, shown once"),
            ("ringfence serve --listen 127.0.0.1:7400", ""),
            ("ringfence serve --check", "the settings, without serving"),
        ],
    ),
    ("token", &[("ringfence token new --name ada --scope run --scope files", "")]),
    (
        "init",
        &[
            ("ringfence init claude-code --dry-run", "show the change"),
            ("ringfence init cursor -- --memory 1G", "with flags for `ringfence mcp`"),
        ],
    ),
    (
        "wrap",
        &[
            ("ringfence wrap", "the servers that clients start"),
            (
                "ringfence wrap github -- --net allow:npm,api.github.com",
                "an npx server, and the host it asks",
            ),
        ],
    ),
    ("completions", &[("source <(ringfence completions bash)", "")]),
    ("doctor", &[("ringfence doctor --json", "for scripts")]),
    ("bench", &[("ringfence bench --rounds 20 --only start", "")]),
];

/// The command line with its help texts.
pub(crate) fn command() -> Command {
    let mut all = Cli::command();
    let list = groups(&all);
    all = all.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    ));
    for (words, rows) in EXAMPLES {
        let text = examples(rows);
        all = match *words {
            "" => all.after_help(text),
            name => all.mut_subcommand(name, |command| {
                let before = command.get_after_help().map(|text| format!("{text}\n\n"));
                command.after_help(before.unwrap_or_default() + &text)
            }),
        };
    }
    let names: Vec<String> = all.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for name in names {
        all = all.mut_subcommand(name, own_flags);
    }
    for (name, runs) in RUNS {
        all = all.mut_subcommand(name, |command| policy_flags(command, *runs));
    }
    all.mut_subcommand("repl", |command| command.mut_arg("code_processes", |arg| arg.hide(true)))
        .mut_subcommand("mcp", agents_timeout)
        .mut_subcommand("serve", agents_timeout)
        .mut_subcommand("agent", |command| {
            command
                .mut_arg("preset", |arg| arg.hide(true))
                .mut_arg("timeout", |arg| arg.help("Wall clock, such as 30s [default: none]"))
        })
}

/// Names the default timeout of an agent's commands.
fn agents_timeout(command: Command) -> Command {
    let of_code = DEFAULTS.iter().find(|(flag, ..)| *flag == "timeout").map_or("", |row| row.2);
    let help = format!(
        "Wall clock, such as 30s [default: {}; Python {of_code}]",
        crate::commands::COMMAND_TIMEOUT
    );
    command.mut_arg("timeout", |arg| arg.help(help))
}

/// Lists the flags of a command itself in front of those that several share.
fn own_flags(command: Command) -> Command {
    let shared = PolicyFlags::augment_args(ServiceFlags::augment_args(Command::new("shared")));
    let shared: Vec<String> = shared.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    // `check` has its own flags of these names.
    let has_policy = command.get_arguments().any(|arg| arg.get_id() == "redact");
    command.mut_args(|arg| {
        let is_shared = has_policy && shared.iter().any(|id| arg.get_id() == id.as_str());
        if is_shared { arg } else { arg.help_heading(None) }
    })
}

/// The list of commands by task.
fn groups(all: &Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max();
    let width = width.unwrap_or(0);
    let mut out = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(out, "{heading}:");
        for name in *names {
            let about = all.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(out, "  {name:<width$}  {about}");
        }
        out.push('\n');
    }
    out
}

/// Hides the flags that mean nothing to a command, and names the defaults of the others.
fn policy_flags(mut command: Command, runs: Runs) -> Command {
    let hidden = match runs {
        Runs::Commands => foreign_flags(Subject::Command),
        Runs::Code => foreign_flags(Subject::Code),
        Runs::Both => Vec::new(),
    };
    for flag in hidden {
        command = command.mut_arg(flag.replace('-', "_"), |arg| arg.hide(true));
    }
    let is_agent = command.get_name() == "agent";
    if is_agent {
        command = command.mut_arg("net", |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.help(help.replace("[default: none]", "[default: the agent's own hosts]"))
        });
    }
    for (flag, of_commands, of_code) in DEFAULTS {
        let of_agents = AGENT_DEFAULTS.iter().find(|(of, _)| of == flag).filter(|_| is_agent);
        let of_commands = of_agents.map_or(of_commands, |(_, default)| default);
        let default = match runs {
            Runs::Commands => (*of_commands).to_owned(),
            Runs::Code => (*of_code).to_owned(),
            Runs::Both if of_commands == of_code => (*of_code).to_owned(),
            Runs::Both => format!("{of_commands}; Python {of_code}"),
        };
        command = command.mut_arg(flag, |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let help = match (runs, *flag) {
                (Runs::Commands, "preset") => "Preset: workspace, readonly, minimal or agent",
                (Runs::Code, "preset") => "Preset: standard, strict, data or open",
                _ => &help,
            };
            arg.help(format!("{help} [default: {default}]"))
        });
    }
    command
}

fn examples(rows: &[(&str, &str)]) -> String {
    let mut out = "Examples:".to_owned();
    for (line, note) in rows {
        let _ = match *note {
            "" => write!(out, "\n  {line}"),
            note => write!(out, "\n  {line}  # {note}"),
        };
    }
    out
}

/// Colours a help text or an error of the parser: headings, flags and commands, the word `error`.
pub(crate) fn coloured(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let _ = match body {
            _ if body.starts_with("error:") => {
                write!(out, "{}{}{end}", style::painted(Look::Bad, "error:"), &body[6..])
            }
            _ if body.starts_with("Usage: ") => {
                write!(out, "{}{}{end}", style::painted(Look::Heading, "Usage:"), &body[6..])
            }
            _ if !body.starts_with(' ') && body.ends_with(':') => {
                write!(out, "{}{end}", style::painted(Look::Heading, body))
            }
            _ => match first_words(body) {
                Some((from, to)) => {
                    let name = style::painted(Look::Hint, &body[from..to]);
                    write!(out, "{}{name}{}{end}", &body[..from], &body[to..])
                }
                None => write!(out, "{body}{end}"),
            },
        };
    }
    out
}

/// The flag or command that a line of a list begins with: from, to.
fn first_words(line: &str) -> Option<(usize, usize)> {
    let from = line.len() - line.trim_start().len();
    let listed = (from == 2 || line[from..].starts_with("--")) && from <= 6;
    if !listed || line[from..].starts_with("ringfence ") {
        return None;
    }
    let to = line[from..].find("  ").map_or(line.len(), |n| from + n);
    Some((from, to)).filter(|(from, to)| from < to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_is_in_one_group() {
        let all = Cli::command();
        let visible: BTreeSet<&str> =
            all.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), visible);
        assert_eq!(grouped.len(), visible.len());
        command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        let all = Cli::command();
        for command in all.get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = command.get_name();
            assert!(EXAMPLES.iter().any(|(words, _)| *words == name), "no example of {name}");
        }
        for (line, _) in EXAMPLES.iter().flat_map(|(_, rows)| *rows) {
            let Some(at) = line.find("ringfence ") else { panic!("{line}") };
            let line = line[at..].trim_end_matches(')');
            let line = line.split(['>', '<']).next().unwrap_or(line).trim_end();
            let words: Vec<&str> = line.split(' ').collect();
            let parsed = crate::parse::parsed(words.iter().map(Into::into).collect());
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
        }
    }

    #[test]
    fn defaults_are_those_of_the_policies() {
        use ringfence_spec::{CodePreset, CommandPreset, Count, Limits};
        let texts = |limits: Limits, preset: &str| {
            let count = |count: Option<Count>| count.unwrap().get().to_string();
            [
                ("timeout", limits.timeout.unwrap().to_string()),
                ("cpu", limits.cpu.map_or("none".to_owned(), |v| v.to_string())),
                ("memory", limits.memory.unwrap().to_string()),
                ("pids", count(limits.pids)),
                ("fds", count(limits.fds)),
                ("disk", limits.disk.unwrap().to_string()),
                ("output", limits.output.to_string()),
                ("preset", preset.to_owned()),
            ]
        };
        let large_host = Limits::for_commands(64 << 30);
        let commands = texts(large_host, CommandPreset::default().name());
        let code = texts(Limits::for_code(CodePreset::default()), CodePreset::default().name());
        let shown = |text: &'static str| {
            // The rest is what the host and the terminal change.
            let rest = ["; none on a terminal", " or half the host's"];
            rest.iter().find_map(|rest| text.strip_suffix(rest)).unwrap_or(text)
        };
        let of_commands = DEFAULTS.iter().map(|(flag, text, _)| (*flag, shown(text).to_owned()));
        assert_eq!(of_commands.collect::<Vec<_>>(), commands);
        let of_code = DEFAULTS.iter().map(|(flag, _, text)| (*flag, (*text).to_owned()));
        assert_eq!(of_code.collect::<Vec<_>>(), code);
        let half = Limits::for_commands(2 << 30).memory.unwrap();
        assert_eq!(half.bytes(), 1 << 30, "half the host's");
    }

    #[test]
    fn headings_flags_and_errors_are_coloured() {
        let text = "About\n\nUsage: x [OPTIONS]\n\nRun code:\n  run  Run it\n\nOptions:\n      --json  Print\n";
        let got = coloured(text);
        for part in [
            "\u{1b}[1mUsage:\u{1b}[0m x",
            "\u{1b}[36mrun\u{1b}[0m  Run",
            "\u{1b}[36m--json\u{1b}[0m",
        ] {
            assert!(got.contains(part), "{got:?}");
        }
        assert!(coloured("error: no\n").starts_with("\u{1b}[1;31merror:\u{1b}[0m no"));
    }
}
