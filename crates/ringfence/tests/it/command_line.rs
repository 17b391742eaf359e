//! What each command prints: with and without `--json`, on a terminal and in a pipe; colours, `--quiet`, `--verbose`, readers
//! that leave early, and secrets in streamed output.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringfence_testing::{BoundedCommand as _, Json, json};

use crate::support::{Ran, World, pty};

/// Form of what a command prints on stdout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A table: with a header on a terminal, tabs in a pipe.
    Table(&'static str),
    /// One id for each line in a pipe, a table on a terminal.
    Ids(&'static str),
    /// Lines for people, the same in both places.
    Text,
    /// JSON, laid out in lines.
    Pretty,
    /// One JSON object on one line.
    Json,
    /// One JSON object on each line.
    JsonLines,
    /// Nothing.
    Nothing,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Table(_) => "table",
            Self::Ids(_) => "table; ids in a pipe",
            Self::Text => "text",
            Self::Pretty => "JSON in lines",
            Self::Json => "JSON",
            Self::JsonLines => "JSON lines",
            Self::Nothing => "nothing",
        }
    }
}

/// A command, its form, and its form with `--json`.
type Row = (&'static str, Form, Form);

/// `ID` is a session, `RUN` a run that has ended.
const ROWS: &[Row] = &[
    ("exec -c print(1)", Form::Text, Form::Json),
    ("run -- echo hi", Form::Text, Form::Json),
    ("check -c 1", Form::Text, Form::Json),
    ("explain -- true", Form::Text, Form::Json),
    ("doctor", Form::Text, Form::Json),
    ("agent", Form::Text, Form::Json),
    ("wrap", Form::Table("SERVER"), Form::Json),
    ("wrap --client claude-code --config none.json", Form::Nothing, Form::Json),
    ("policy show", Form::Table("KEY"), Form::Json),
    ("policy presets", Form::Table("PRESET"), Form::Json),
    ("policy bundle", Form::Table("BUNDLE"), Form::Json),
    ("policy check own.toml", Form::Text, Form::Json),
    ("session new", Form::Text, Form::Json),
    ("session ls", Form::Ids("SESSION"), Form::JsonLines),
    ("session ls -l", Form::Table("SESSION"), Form::JsonLines),
    ("session ls ID", Form::Text, Form::Json),
    ("session show ID", Form::Json, Form::Json),
    ("session fork ID", Form::Text, Form::Json),
    ("session gc", Form::Json, Form::Json),
    ("grep --session ID needle", Form::Text, Form::Json),
    ("search --session ID needle", Form::Text, Form::Json),
    ("index --session ID", Form::Text, Form::Json),
    ("chunk --session ID f.txt", Form::Text, Form::Json),
    ("audit ls", Form::Table("RUN"), Form::Json),
    ("audit ls --rows", Form::Table("ROW"), Form::Json),
    ("audit show RUN", Form::Pretty, Form::Json),
    ("audit tail", Form::Table("ROW"), Form::JsonLines),
    ("audit report", Form::Pretty, Form::Json),
    ("audit verify", Form::Text, Form::Json),
    ("audit export", Form::JsonLines, Form::JsonLines),
    ("audit settings", Form::Json, Form::Json),
    ("token new --name ada", Form::Text, Form::Json),
    ("token ls", Form::Table("NAME"), Form::Json),
];

const ESCAPE: char = '\u{1b}';

/// A world with a session that has a file, and a run.
fn prepared() -> (World, String, String) {
    let world = World::new();
    world.write("work/own.toml", "timeout = \"5m\"\n");
    world.write("work/f.txt", "a needle\n");
    let servers =
        r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server-files"]}}}"#;
    world.write("work/.mcp.json", servers);
    world.write("work/none.json", "{}\n");
    let run = world.ringfence(&["exec", "--json", "-c", "print(1)"]).json();
    let id = world.ringfence(&["session", "new"]).stdout.trim().to_owned();
    assert_eq!(world.ringfence(&["session", "put", &id, "f.txt"]).code, 0);
    (world, id, run["run_id"].as_str().unwrap().to_owned())
}

#[test]
fn what_each_command_prints() {
    let (world, id, run) = prepared();
    // As in the terminal: plans name the variable.
    let world = world.var("TERM", "xterm");
    for (line, plain, as_json) in ROWS {
        let line = line.replace("ID", &id).replace("RUN", &run);
        let (before, argv) = line.split_once(" -- ").unwrap_or((&line, ""));
        for (form, json) in [(*plain, false), (*as_json, true)] {
            let mut args: Vec<&str> = before.split(' ').collect();
            args.extend(json.then_some("--json"));
            if !argv.is_empty() {
                args.push("--");
                args.extend(argv.split(' '));
            }
            let name = args.join(" ");
            // A token's name is used once.
            let is_new = name.starts_with("token new");
            let piped = world.ringfence(&args);
            // `doctor` exits 1 where the host lacks a layer.
            let fails = name.starts_with("doctor") && piped.code == 1;
            assert!(piped.code == 0 || fails, "{name}: {} {}", piped.stdout, piped.stderr);
            piped_form(&name, form, &piped.stdout);
            if is_new {
                assert_eq!(world.ringfence(&["token", "revoke", "ada"]).code, 0);
                continue;
            }
            let shown = Terminal::run(&world, &args, &[]);
            terminal_form(&name, form, &shown, &piped.stdout);
            let plain = Terminal::run(&world, &args, &[("NO_COLOR", "1")]);
            assert!(!plain.contains(ESCAPE), "{name}: {plain:?}");
        }
    }
}

fn piped_form(name: &str, form: Form, text: &str) {
    assert!(!text.contains(ESCAPE), "{name}: {text:?}");
    match form {
        Form::Nothing => assert_eq!(text, "", "{name}"),
        Form::Text => assert!(!text.is_empty() && !text.starts_with('{'), "{name}: {text}"),
        Form::Table(header) => {
            assert!(text.contains('\t') && !text.starts_with(header), "{name}: {text}");
            let n = text.lines().next().unwrap().split('\t').count();
            assert!(
                n > 1 && text.lines().all(|line| line.split('\t').count() == n),
                "{name}: {text}"
            );
        }
        Form::Ids(_) => {
            assert!(!text.is_empty(), "{name}");
            assert!(text.lines().all(|line| line.len() == 32), "{name}: {text}");
        }
        Form::Json => assert!(is_one_json_line(text), "{name}: {text}"),
        Form::Pretty => {
            assert!(text.lines().count() > 1 && is_json(text), "{name}: {text}");
        }
        Form::JsonLines => are_json_lines(name, text),
    }
}

/// `piped` is what the command printed in a pipe.
fn terminal_form(name: &str, form: Form, text: &str, piped: &str) {
    match form {
        Form::Table(header) | Form::Ids(header) => {
            let first = text.lines().next().unwrap_or_default();
            assert!(first.contains(&format!("[1m{header}")), "{name}: {text:?}");
            let bare = without_colours(text);
            assert!(bare.lines().all(|line| line.chars().count() <= 100), "{name}: {bare}");
        }
        Form::Json => assert!(is_one_json_line(text), "{name}: {text:?}"),
        Form::JsonLines => are_json_lines(name, text),
        Form::Pretty => assert!(is_json(text), "{name}: {text:?}"),
        Form::Nothing => assert_eq!(text, "", "{name}"),
        // Ids, times and sizes may differ between two calls: the lines and words are as many.
        Form::Text => {
            let shape = |text: &str| -> Vec<usize> {
                text.lines().map(|line| line.split_whitespace().count()).collect()
            };
            let bare = without_colours(text);
            assert_eq!(shape(&bare), shape(piped), "{name}: {bare}\n{piped}");
        }
    }
}

/// Panics if a text is no JSON, and says so.
fn is_json(text: &str) -> bool {
    !Json::parse(text).is_null()
}

fn is_one_json_line(text: &str) -> bool {
    text.trim_end().lines().count() == 1 && is_json(text)
}

fn are_json_lines(name: &str, text: &str) {
    assert!(!text.is_empty(), "{name}");
    assert!(text.lines().all(is_one_json_line), "{name}: {text:?}");
}

fn without_colours(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split(ESCAPE);
    out.extend(parts.next());
    out.extend(parts.filter_map(|part| part.split_once('m').map(|(_, rest)| rest)));
    out
}

/// The table of `docs/reference/cli.md` is the one above.
#[test]
fn the_reference_says_what_each_command_prints() {
    let doc = include_str!("../../../../docs/reference/cli.md");
    for (line, plain, as_json) in ROWS {
        let row = format!("| `{line}` | {} | {} |", plain.name(), as_json.name());
        assert!(doc.contains(&row), "docs/reference/cli.md has no row\n{row}");
    }
}

/// A command on a terminal of 100 columns.
struct Terminal;

impl Terminal {
    /// Everything that the command wrote, stdout and stderr apart where the caller wants: stderr goes to /dev/null.
    fn run(world: &World, args: &[&str], variables: &[(&str, &str)]) -> String {
        let (master, slave) = pty(40, 100);
        let mut command = world.command(args);
        command.env("TERM", "xterm").envs(variables.iter().copied());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::from(slave))
            .stderr(Stdio::null())
            .bounded_spawn()
            .unwrap();
        // The slave end closes with the command value.
        drop(command);
        let text = drain(master);
        child.wait().unwrap();
        text
    }
}

/// Reads until the other side is closed: EIO (pty(7)).
fn drain(mut master: std::fs::File) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n) = master.read(&mut buffer)
        && n > 0
    {
        bytes.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
}

#[test]
fn colours_follow_the_flag_and_the_variables() {
    let world = World::new();
    let presets = ["policy", "presets"];
    let coloured =
        |variables: &[(&str, &str)]| Terminal::run(&world, &presets, variables).contains(ESCAPE);
    assert!(coloured(&[]));
    assert!(!coloured(&[("NO_COLOR", "1")]) && !coloured(&[("TERM", "dumb")]));
    let never = Terminal::run(&world, &["policy", "presets", "--color", "never"], &[]);
    assert!(!never.contains(ESCAPE));
    // In a pipe: the error is on stderr.
    let error = |world: &World, args: &[&str]| world.ringfence(args).stderr;
    assert!(
        error(&world, &["--color", "always", "audit", "show", "zz"]).contains("\u{1b}[1;31merror:")
    );
    assert!(!error(&world, &["audit", "show", "zz"]).contains(ESCAPE));
    let forced = World::new().var("CLICOLOR_FORCE", "1");
    assert!(error(&forced, &["audit", "show", "zz"]).contains(ESCAPE));
    assert!(world.ringfence(&["--color=always", "--help"]).stdout.contains("\u{1b}[1mRun code:"));
    assert!(!world.ringfence(&["--help"]).stdout.contains(ESCAPE));
    assert_eq!(world.ringfence(&["--color", "blue", "doctor"]).code, 2);
}

#[test]
fn quiet_prints_results_and_errors_and_verbose_prints_more() {
    let world = World::new();
    world.write("work/items.jsonl", "{\"id\": 1, \"code\": \"6*7\"}\n");
    let usual = world.ringfence(&["batch", "items.jsonl"]);
    let quiet = world.ringfence(&["--quiet", "batch", "items.jsonl"]);
    let verbose = world.ringfence(&["batch", "--verbose", "items.jsonl"]);
    assert_eq!(usual.stderr, "ringfence: 1 items, 1 ok\n");
    assert_eq!((quiet.stderr.as_str(), quiet.stdout.lines().count()), ("", 1));
    assert!(verbose.stderr.starts_with("ringfence: 1: ok, "), "{}", verbose.stderr);
    // Errors stay.
    let refused = world.ringfence(&["audit", "show", "zzzz", "--quiet"]);
    assert!(refused.code != 0 && refused.stderr.starts_with("error: "), "{}", refused.stderr);
    assert!(!refused.stderr.contains("code:"));
    let refused = world.ringfence(&["audit", "show", "zzzz", "--verbose"]);
    assert!(refused.stderr.contains("\n  code: "), "{}", refused.stderr);
    let ran = world.ringfence(&["exec", "--verbose", "-c", "print(1)"]);
    assert_eq!(ran.stdout, "1\n");
    assert!(
        ran.stderr.contains("ringfence: run ") && ran.stderr.contains(", ok, tier "),
        "{}",
        ran.stderr
    );
    assert_eq!(world.ringfence(&["doctor", "--quiet", "--verbose"]).code, 2);
    // Everything after the command is the command's.
    assert_eq!(world.ringfence(&["run", "--", "echo", "--quiet"]).stdout, "--quiet\n");
}

/// Items of a batch that sleep so long, with empty lines between.
fn items(n: u32, seconds: f64) -> String {
    let item = |n| json!({"id": n, "code": format!("import time; time.sleep({seconds})")});
    (0..n).map(|n| item(n).to_string() + "\n\n").collect()
}

#[test]
fn a_reader_that_leaves_stops_a_batch_quietly() {
    let world = World::new();
    let items = items(400, 0.05);
    world.write("work/items.jsonl", &items);
    let ringfence = crate::support::binary();
    let script = format!(
        "'{}' batch -j 2 items.jsonl | head -1; echo ${{PIPESTATUS[0]}}",
        ringfence.display()
    );
    let mut command = world.here(std::process::Command::new("bash"));
    let ran = Ran::from(&command.args(["-c", &script]).bounded_output().unwrap());
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!((lines.len(), lines[1], ran.stderr.as_str()), (2, "0", ""), "{}", ran.stdout);
    assert!(is_one_json_line(lines[0]));
    let listed = world.ringfence(&["audit", "ls", "--tool", "batch", "--limit", "500"]).stdout;
    assert!(listed.lines().count() < 100, "{} items ran", listed.lines().count());
    // No other command fails or panics either.
    for args in
        ["audit ls", "audit export", "audit tail", "doctor", "explain -- true", "policy show"]
    {
        let script = format!("'{}' {args} | true; echo ${{PIPESTATUS[0]}}", ringfence.display());
        let mut command = world.here(std::process::Command::new("bash"));
        let ran = Ran::from(&command.args(["-c", &script]).bounded_output().unwrap());
        let is_doctor = args == "doctor" && ran.stdout == "1\n";
        assert!(ran.stdout == "0\n" || is_doctor, "{args}: {}", ran.stdout);
        let said = ran.stderr.lines().filter(|line| !line.starts_with("ringfence: "));
        assert_eq!(said.count(), 0, "{args}: {}", ran.stderr);
    }
}

#[test]
fn a_batch_on_a_terminal_shows_its_total() {
    let world = World::new();
    let items = items(40, 0.1);
    world.write("work/items.jsonl", &items);
    let (master, slave) = pty(40, 100);
    let mut command = world.command(&["batch", "-j", "1", "items.jsonl"]);
    command
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(slave));
    let mut child = command.bounded_spawn().unwrap();
    drop(command);
    let shown = drain(master);
    assert!(child.wait().unwrap().success());
    assert!(shown.contains("/40 items") && shown.contains(" left"), "{shown:?}");
    assert!(shown.contains("40 items, 40 ok"), "{shown:?}");
}

#[test]
fn exit_and_quit_leave_the_repl() {
    let world = World::new();
    for (cells, code, printed) in [("1+1\n\nexit()\n\n2+2\n", 0, "2\n"), ("quit(3)\n", 3, "")] {
        world.write("work/cells", cells);
        let mut command = world.command(&["repl"]);
        command.stdin(std::fs::File::open(world.work().join("cells")).unwrap());
        let ran = Ran::from(&command.bounded_output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (code, printed), "{}", ran.stderr);
    }
}

/// The token comes in two writes with a pause between, and is read while the program runs on.
#[test]
fn streamed_output_has_no_secret_and_does_not_wait_for_the_end() {
    let world = World::new();
    let program = "import sys, time\nw = sys.stdout.write\nw('a gh' + 'p_x7Kq9LmZ2v'); sys.stdout.flush()\n\
        time.sleep(0.1)\nw('Rt4WbN8yHd3FsJ6pGc1TeUaQ5o b\\n'); sys.stdout.flush()\nw('more? '); sys.stdout.flush()\ntime.sleep(20)";
    for args in [
        vec!["exec", "--redact", "on", "-c", program],
        vec!["run", "--redact", "on", "--", "python3", "-c", program],
    ] {
        let mut child = world
            .command(&args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .bounded_spawn()
            .unwrap();
        let began = Instant::now();
        let mut out = child.stdout.take().unwrap();
        let (mut seen, mut buffer) = (String::new(), [0; 256]);
        while !seen.ends_with("more? ") {
            let n = out.read(&mut buffer).unwrap();
            assert!(n > 0, "{args:?}: {seen:?}");
            seen.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
        }
        assert_eq!(seen, "a [redacted:github-token] b\nmore? ", "{args:?}");
        assert!(began.elapsed() < Duration::from_secs(15), "{args:?}: {:?}", began.elapsed());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // A REPL shows no secret either, and neither does base64.
    let cell = json!("print('gh' + 'p_x7Kq9LmZ2vRt4WbN8yHd3FsJ6pGc1TeUaQ5o')").to_string();
    world.write("work/cells", &format!("{cell}\n"));
    let mut command = world.command(&["repl", "--json", "--redact", "on"]);
    command.stdin(std::fs::File::open(world.work().join("cells")).unwrap());
    let ran = Ran::from(&command.bounded_output().unwrap());
    assert_eq!(ran.json()["stdout"], "[redacted:github-token]\n");
    let binary = "import sys; sys.stdout.buffer.write(b'\\0\\xff gh' + b'p_x7Kq9LmZ2vRt4WbN8yHd3FsJ6pGc1TeUaQ5o\\n')";
    let ran = world.ringfence(&["exec", "--json", "--redact", "on", "-c", binary]).json();
    assert_eq!(
        (ran["encoding"].as_str(), ran["stdout"].as_str()),
        (Some("base64"), Some("AP8gW3JlZGFjdGVkOmdpdGh1Yi10b2tlbl0K"))
    );
}

/// A file of settings that stops every run stops nothing that starts none, and is shown where one looks for it.
#[test]
fn a_broken_file_of_settings_is_named_and_stops_runs_alone() {
    let world = World::new();
    assert_eq!(world.ringfence(&["run", "--", "true"]).code, 0);
    let file = world.write("home/.config/ringfence/config.toml", "memry = \"1G\"\npids = 99\n");
    let fault = format!("`memry` is not a setting in `{}`", file.display());
    assert_eq!(world.ringfence(&["run", "--", "true"]).code, 2);
    for args in [
        &["audit", "verify"][..],
        &["audit", "ls"],
        &["session", "ls"],
        &["token", "ls"],
        &["check", "-c", "1"],
    ] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        let warning = format!("ringfence: {fault}; runs are refused until that is corrected\n");
        assert_eq!(ran.stderr, warning, "{args:?}");
    }
    let shown = world.ringfence(&["policy", "show"]);
    assert_eq!(shown.code, 2);
    let pids = shown.stdout.lines().find(|line| line.starts_with("pids\t")).unwrap();
    assert_eq!(pids, format!("pids\t99\t{}", file.display()));
    let hint = "  hint: did you mean `memory`?\n";
    assert_eq!(shown.stderr, format!("error: {fault}\n{hint}"));
    let doctor = world.ringfence(&["doctor", "--json"]);
    assert_eq!(doctor.code, 2, "{}", doctor.stdout);
    let report = doctor.json();
    let row = |name: &str| {
        let rows = report["checks"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap().clone()
    };
    let settings = row("settings");
    assert_eq!(
        (&settings["ok"], settings["found"].as_str()),
        (&json!(false), Some(fault.as_str()))
    );
    assert_eq!(settings["fix"], "did you mean `memory`?");
    let about_python = row("python")["found"].as_str().unwrap().to_owned();
    assert!(!about_python.contains("memry"), "{about_python}");
    // As the hint says.
    world.write("home/.config/ringfence/config.toml", "memory = \"1G\"\n");
    assert_eq!(world.ringfence(&["run", "--", "true"]).code, 0);
    assert_ne!(world.ringfence(&["doctor"]).code, 2);
}

#[test]
fn a_preset_that_the_operator_refuses_is_in_no_hint() {
    let world = World::new();
    let config = "home/.config/ringfence/config.toml";
    world.write(config, "code_preset_at_least = \"standard\"\n");
    for code in ["import os", "open('x')"] {
        for args in [&["exec", "-c", code][..], &["check", "-c", code]] {
            let ran = world.ringfence(args);
            let text = format!("{}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code, 126, "{args:?}: {text}");
            assert!(text.contains("hint: ") && !text.contains("`data`"), "{args:?}: {text}");
            assert!(text.contains("preset") && text.contains("standard"), "{args:?}: {text}");
        }
    }
    let ran = world.ringfence(&["exec", "--allow-import", "os", "-c", "import os"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    world.write(config, "code_preset_at_least = \"strict\"\n");
    let ran = world.ringfence(&["exec", "-c", "import math"]);
    assert!(ran.stderr.contains("allows no preset but `strict`"), "{}", ran.stderr);
}

#[test]
fn a_flag_of_other_programs_is_told_as_ours() {
    let world = World::new();
    for (args, tip) in [
        (&["serve", "--port", "80"][..], "`--listen 127.0.0.1:PORT`"),
        (&["serve", "--host=0.0.0.0"], "`--listen ADDRESS:PORT`"),
        (&["run", "--port", "80", "--", "true"], "`--publish PORT`"),
    ] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(tip), "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("similar argument"), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_value_that_is_nearly_right_is_told_as_it_is_written() {
    let world = World::new();
    let serve = |table: &str| world.write("serve.toml", &format!("[serve]\n{table}\n"));
    let file = serve("breakers = true");
    let check = ["policy", "check", file.to_str().unwrap()];
    for (args, told) in [
        (&["run", "--timeout", "1.5s", "--", "true"][..], "write `1500ms`"),
        (&["run", "--timeout", "1h30m", "--", "true"], "write `90m`"),
        (&["run", "--timeout", "none", "--", "true"], "`none` is no limit"),
        (&["run", "--memory", "1.5G", "--", "true"], "write `1536M`"),
        (&["run", "--memory", "512", "--", "true"], "write `512M`"),
        (&["serve", "--check", "--rate-per-minute", "0"], "hint: `off` is no limit"),
        (&["serve", "--check", "--connections", "99999999"], "4194304 is the most"),
        (&["audit", "ls", "--since", "90"], "such as `90m`"),
        (&check, "a switch is the text `on` or `off`"),
    ] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{args:?}: {}", ran.stderr);
    }
    // As they were told.
    for args in [
        &["run", "--timeout", "1500ms", "--memory", "1536M", "--", "true"][..],
        &["run", "--timeout", "90m", "--memory", "512M", "--", "true"],
        &["serve", "--check", "--rate-per-minute", "off", "--connections", "4194304"],
        &["audit", "ls", "--since", "90m"],
    ] {
        assert_eq!(world.ringfence(args).code, 0, "{args:?}");
    }
    serve("breakers = \"on\"");
    assert_eq!(world.ringfence(&check).code, 0);
}
