//! Texts that people and agents read, compared as a whole: help, the tools' schemas, `doctor --json`, errors and their hints.
//!
//! The expected texts are in `snapshots/`. After a wanted change write them again, and read the diff before the commit:
//!
//! ```sh
//! INSTA_UPDATE=always cargo test -p ringfence --test it snapshots
//! ```
//!
//! Without that variable nothing is written (`.cargo/config.toml` sets it to `no`), and a difference fails the test. What
//! depends on the host, the user or the run is replaced by its name in brackets.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ringfence_testing::{BoundedCommand as _, Json, json};

use crate::mcp::client::Client;
use crate::support::{Ran, World, have, snapshots};

/// Commands that `ringfence --help` does not list and users write into their files: those of hooks.
const UNLISTED: &[&str] = &["hook"];

/// Terminal width of the help. Without a terminal clap takes it from this variable.
const WIDTH: (&str, &str) = ("COLUMNS", "100");

#[test]
fn help_of_every_command() {
    let world = World::new();
    let main = help(&world, &[]);
    check("help", &main);
    let mut names = subcommands(&main);
    assert!(names.len() >= 16, "the list of commands was not understood: {names:?}");
    names.extend(UNLISTED.iter().map(|name| (*name).to_owned()));
    for name in &names {
        let mut text = String::new();
        help_of_all(&world, &[name], &mut text);
        check(&format!("help_{name}"), &text);
    }
    // A command that is gone leaves no snapshot behind.
    let stored = std::fs::read_dir(snapshots()).unwrap().filter_map(|entry| {
        let file = entry.unwrap().file_name().into_string().unwrap();
        Some(file.strip_prefix("help_")?.strip_suffix(".snap")?.to_owned())
    });
    assert_eq!(stored.collect::<BTreeSet<_>>(), names.into_iter().collect());
}

/// Appends the help of a command, and of every command below it.
fn help_of_all(world: &World, command: &[&str], text: &mut String) {
    let own = help(world, command);
    let _ = write!(text, "$ ringfence {} --help\n{own}\n", command.join(" "));
    for below in subcommands(&own) {
        help_of_all(world, &[command, &[&below]].concat(), text);
    }
}

fn help(world: &World, command: &[&str]) -> String {
    let mut asked = world.command(&[command, &["--help"]].concat());
    let ran = Ran::from(&asked.env(WIDTH.0, WIDTH.1).bounded_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command:?}");
    ran.stdout
}

/// Headings of the lists of commands in help texts.
const LISTS: &[&str] =
    &["Commands:", "Run code:", "Sessions:", "Servers:", "Policy:", "Audit:", "Setup:"];

/// The commands that a help text lists, sorted.
fn subcommands(help: &str) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut in_list = false;
    for line in help.lines() {
        if !line.starts_with(' ') {
            in_list = LISTS.contains(&line);
        }
        // A long description goes on in lines with a larger indent, and flags begin with a dash.
        let is_name =
            line.starts_with("  ") && !line.starts_with("   ") && !line.starts_with("  -");
        if in_list && is_name {
            names.extend(line.split_whitespace().next().map(str::to_owned));
        }
    }
    names.remove("help");
    names.into_iter().collect()
}

#[test]
fn tools_of_mcp() {
    let world = World::new();
    let mut client = Client::silent(&world, &[]);
    client.hello("2025-11-25");
    let answer = client.request("tools/list", &json!({}));
    check("mcp_tools_list", &format!("{:#}", answer["result"]));
}

/// Keys, names of checks and words for the tier; the host's own findings are left out.
#[test]
fn keys_of_doctor() {
    const TIERS: [&str; 3] = ["namespaces", "landlock", "none"];
    let mut report = World::new().ringfence(&["doctor", "--json"]).json();
    assert!(TIERS.contains(&report["tier"].as_str().unwrap()), "{report}");
    assert!(report["kernel"].is_string(), "{report}");
    report.insert("tier", format!("[{}]", TIERS.join(" | ")));
    report.insert("kernel", "[release]");
    let fields = report.as_object_mut().unwrap();
    for check in fields.get_mut("checks").and_then(Json::as_array_mut).unwrap() {
        let is_ok = check["ok"].as_bool().unwrap();
        assert!(check["found"].is_string(), "{check}");
        assert_eq!((check["fix"].is_null(), check["fix"].is_string()), (is_ok, !is_ok), "{check}");
        check.insert("ok", "[true | false]");
        check.insert("found", "[text]");
        check.insert("fix", "[null if ok | text]");
    }
    check("doctor", &format!("{report:#}"));
}

/// What a row of errors needs besides its arguments: files below the workspace, and variables.
type Given = &'static [(&'static str, &'static str)];

const UNKNOWN_SESSION: &str = "0123456789abcdef0123456789abcdef";

/// Refusals that come before anything is started, and are the same on every host.
const REFUSED: &[(&[&str], Given)] = &[
    (&["rnu", "--", "true"], &[]),
    (&["run"], &[]),
    (&["run", "--memry", "1G", "--", "true"], &[]),
    (&["run", "--memory", "0", "--", "true"], &[]),
    (&["run", "--memory", "1Q", "--", "true"], &[]),
    (&["run", "--timeout", "-1s", "--", "true"], &[]),
    (&["run", "--timeout", "5", "--", "true"], &[]),
    (&["run", "--pids", "x", "--", "true"], &[]),
    (&["run", "--preset", "nope", "--", "true"], &[]),
    (&["run", "--preset", "standard", "--", "true"], &[]),
    (&["run", "--net", "everything", "--", "true"], &[]),
    (&["run", "--require", "docker", "--", "true"], &[]),
    (&["run", "--env", "LD_PRELOAD", "--", "true"], &[]),
    (&["run", "--policy", "missing.toml", "--", "true"], &[]),
    (&["run", "--", "true"], &[("RINGFENCE_MEMORY", "lots")]),
    (&["run", "--", "true"], &[("ringfence.toml", "memry = \"1G\"\n")]),
    (&["run", "--", "true"], &[("ringfence.toml", "rw = [\"/etc\"]\n")]),
    (&["run", "--", "true"], &[("ringfence.toml", "memory = \n")]),
    (&["run", "--", "true"], &[("ringfence.toml", "[serve]\nlisten = \"0.0.0.0:1\"\n")]),
    (&["policy", "check", "own.toml"], &[("own.toml", "timeout = 5\n")]),
    (&["policy", "check", "missing.toml"], &[]),
    (&["exec", "--preset", "nope", "-c", "1"], &[]),
    (&["exec", "missing.py"], &[]),
    (&["exec", "--file", "missing.csv", "-c", "1"], &[]),
    (&["check"], &[]),
    (&["check", "missing.py"], &[]),
    (&["check", "--preset", "standard", "-c", "import os"], &[]),
    (&["check", "--preset", "standard", "-c", "eval('1')"], &[]),
    (&["check", "-c", "x = ("], &[]),
    (&["batch", "missing.jsonl"], &[]),
    (&["repl", "--session", UNKNOWN_SESSION], &[]),
    (&["session", "show", UNKNOWN_SESSION], &[]),
    (&["session", "fork", "../../etc"], &[]),
    (&["grep", "--session", UNKNOWN_SESSION, "x"], &[]),
    (&["audit", "show", "zzzz"], &[]),
    (&["audit", "ls", "--status", "weird"], &[]),
    (&["audit", "ls", "--since", "yesterday"], &[]),
    (&["audit", "export", "--format", "xml"], &[]),
    (&["audit", "verify", "--anchor", "missing"], &[]),
    (&["serve", "--check", "--listen", "localhost"], &[]),
    (&["serve", "--check", "--listen", "0.0.0.0:0"], &[]),
    (&["serve", "--check", "--tls-cert", "cert.pem"], &[]),
    (&["token", "revoke", "ada"], &[]),
    (&["token", "new", "--name", "ada", "--scope", "everything"], &[]),
    (&["init", "emacs"], &[]),
    (&["init", "cursor", "--config", "mcp.json"], &[("mcp.json", "{\"mcpServers\": ")]),
    (&["hook", "emacs"], &[]),
];

/// Refusals and failures of runs in the full tier.
const STOPPED: &[(&[&str], Given)] = &[
    (&["run", "--cwd", "/", "--", "true"], &[]),
    (&["run", "--cwd", "/no/such/dir", "--", "true"], &[]),
    (&["run", "--rw", "/usr", "--", "true"], &[]),
    (&["run", "--ro", "/no/such/thing", "--", "true"], &[]),
    (&["run", "--net", "allow:*.com", "--", "true"], &[]),
    (&["run", "--", "no-such-command"], &[]),
    (&["run", "--", "/no/such/path"], &[]),
    (&["run", "--", "./data.txt"], &[("data.txt", "no program\n")]),
    (&["run", "--timeout", "300ms", "--", "sleep", "60"], &[]),
    // What `unshare` itself says depends on its version and the locale.
    (&["run", "--", "sh", "-c", "unshare -r true 2>/dev/null"], &[]),
    (&["exec", "-c", "object.__subclasses__()"], &[]),
    (&["exec", "--preset", "standard", "-c", "import os"], &[]),
    (&["exec", "--python", "/no/python3", "-c", "1"], &[]),
];

#[test]
fn errors_before_anything_starts() {
    check("errors_refused", &errors(REFUSED));
}

#[test]
fn errors_of_runs() {
    if have("namespaces") && have("notify") {
        check("errors_stopped", &errors(STOPPED));
    }
}

/// Every row as a terminal shows it, each in a world of its own.
fn errors(rows: &[(&[&str], Given)]) -> String {
    let mut text = String::new();
    for (args, given) in rows {
        let mut world = World::new();
        let mut line = "ringfence".to_owned();
        for (name, value) in *given {
            if name.contains('.') {
                let _ = writeln!(text, "# {name}: {value:?}");
                world.write(&format!("work/{name}"), value);
            } else {
                line = format!("{name}={value} {line}");
                world = world.var(name, value);
            }
        }
        for arg in *args {
            let is_plain = !arg.contains([' ', '(', '\'']);
            let _ = if is_plain { write!(line, " {arg}") } else { write!(line, " {arg:?}") };
        }
        let ran = world.ringfence(args);
        let said = ran.stdout + &ran.stderr;
        let said = said.replace(world.root().to_str().unwrap(), "[world]");
        let _ = write!(text, "$ {line}\n{said}exit {}\n\n", ran.code);
        assert_ne!(ran.code, 0, "{args:?}: {said}");
    }
    text
}

/// Compares a text with its snapshot.
fn check(name: &str, text: &str) {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(snapshots());
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The harness's own part: names are found in a help text whose descriptions take several lines.
#[test]
fn commands_are_found_in_a_help_text() {
    let help = "About\n\nCommands:\n  b-c   One\n        more of it\n  a     Two\n  help  Print\n\nOptions:\n  -h\n";
    assert_eq!(subcommands(help), ["a", "b-c"]);
    assert_eq!(subcommands("About\n\nOptions:\n  -h\n\nPolicy:\n      --ro\n"), [""; 0]);
    assert_eq!(subcommands("Run code:\n  run  x\n\nAudit:\n  audit  y\n"), ["audit", "run"]);
}
