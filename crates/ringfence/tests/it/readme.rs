//! Every command of README.md and docs/tour.md that can run here does, as a user would type it, and says what is shown. Those that
//! cannot are listed with the reason; one that is neither fails.

use std::os::unix::fs::symlink;
use std::process::Command;

use ringfence_testing::{BoundedCommand as _, Json};

use crate::support::{World, binary, have};

/// The documents that show commands to a newcomer.
const DOCUMENTS: &str =
    concat!(include_str!("../../../../README.md"), include_str!("../../../../docs/tour.md"));

/// Commands that are run in another way: what the README says, and what is typed here.
const INSTEAD: &[(&str, &str, &str)] = &[(
    "cargo run --release -- run -- uname -a",
    "ringfence run -- uname -a",
    // Told in the prose below it.
    "Linux ringfence …",
)];

/// Commands that are not run, and why.
const NOT_RUN: &[(&str, &str)] =
    &[("cargo test --workspace", "this test is a part of it, and would wait for itself")];

/// Commands that end with another code than 0, which is what they are there to show.
const FAILS: &[(&str, i32)] = &[
    ("ringfence run -- sh -c 'gcc ", 1),
    // The exit code stays the same with `--json`: that of `unshare`.
    ("ringfence run --json -- unshare -r true", 1),
];

/// One command, and the lines that are shown below it.
struct Shown<'a> {
    command: &'a str,
    output: Vec<&'a str>,
}

#[test]
fn every_command_of_the_readme_does_what_it_shows() {
    if !have("namespaces") || !have("notify") {
        return;
    }
    let blocks = blocks(DOCUMENTS);
    let commands: Vec<&str> = blocks.iter().flatten().map(|shown| shown.command).collect();
    for (listed, ..) in INSTEAD {
        assert!(commands.contains(listed), "`{listed}` is listed and not in the README");
    }
    for (listed, why) in NOT_RUN {
        assert!(commands.contains(listed), "`{listed}` ({why}) is not in the README");
    }
    let mut n_run = 0;
    for block in &blocks {
        let world = project();
        for Shown { command, output } in block {
            if NOT_RUN.iter().any(|(listed, _)| listed == command) {
                continue;
            }
            let instead = INSTEAD.iter().find(|(listed, ..)| listed == command);
            let (typed, output) = match instead {
                Some((_, typed, said)) => (*typed, vec![*said]),
                None => (*command, output.clone()),
            };
            assert!(
                typed.starts_with("ringfence "),
                "`{command}` is neither run nor listed with a reason why not"
            );
            if let Some(missing) = missing(typed) {
                ringfence_testing::missing(
                    "tools",
                    &format!("no `{missing}` here for `{command}`"),
                );
                continue;
            }
            let (code, got) = type_in(&world, typed);
            let due = FAILS.iter().find(|(begin, _)| typed.starts_with(begin));
            assert_eq!(code, due.map_or(0, |(_, code)| *code), "`{command}`: {got}");
            if let Err(why) = fits(typed, &output, &got, &world) {
                panic!(
                    "`{command}`: {why}\nThe README shows:\n{}\nIt says:\n{got}",
                    output.join("\n")
                );
            }
            n_run += 1;
        }
    }
    assert!(n_run >= 8, "only {n_run} commands were found or could run");
}

/// The commands of each fenced block: those behind a prompt, and in a block of `sh` every line.
fn blocks(text: &str) -> Vec<Vec<Shown<'_>>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let mut block: Vec<Shown<'_>> = Vec::new();
        for line in lines.by_ref().take_while(|line| *line != "```") {
            let command = match language {
                "sh" => Some(line).filter(|line| !line.is_empty() && !line.starts_with('#')),
                "text" | "console" => line.strip_prefix("$ "),
                _ => None,
            };
            match (command, block.last_mut()) {
                (Some(command), _) => block.push(Shown { command, output: Vec::new() }),
                (None, Some(last)) => last.output.push(line),
                (None, None) => {}
            }
        }
        if !block.is_empty() {
            blocks.push(block);
        }
    }
    blocks
}

/// What the README speaks of: a project with a program, a secret and a repository, in a home with keys; one run in the ledger.
fn project() -> World {
    let world = World::new();
    for (name, text) in [
        ("work/m.c", "int main(void) { return 0; }\n"),
        ("work/.env", "SECRET=1\n"),
        ("work/.git/HEAD", "ref: refs/heads/main\n"),
        ("work/.git/config", "[core]\n\trepositoryformatversion = 0\n"),
        ("work/.git/hooks/pre-push.sample", ""),
        ("work/.git/objects/info/packs", ""),
        ("work/.git/refs/heads/.keep", ""),
        ("home/.ssh/id_ed25519", "key\n"),
        ("home/.cargo/credentials.toml", "token\n"),
        ("home/.gitconfig", "[user]\n"),
    ] {
        world.write(name, text);
    }
    std::fs::create_dir(world.root().join("bin")).unwrap();
    symlink(binary(), world.root().join("bin/ringfence")).unwrap();
    assert_eq!(world.ringfence(&["run", "--", "true"]).code, 0);
    world
}

/// Types a line into a shell: its exit code, and everything it says.
fn type_in(world: &World, line: &str) -> (i32, String) {
    let mut shell = world.here(Command::new("sh"));
    // One stream, as on a terminal.
    shell.args(["-c", &format!("exec 2>&1; {line}")]);
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{}:{path}", world.root().join("bin").display()));
    let output = shell.bounded_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap_or(-1), said)
}

/// Tools besides ours that a line needs and this host lacks.
fn missing(line: &str) -> Option<&'static str> {
    ["gcc", "jq", "unshare", "make"].into_iter().find(|tool| {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).bounded_output();
        line.split([' ', '\'']).any(|word| word == *tool) && !found.unwrap().status.success()
    })
}

/// Returns an error unless a command printed the text shown, as far as it can on another host.
fn fits(command: &str, shown: &[&str], got: &str, world: &World) -> Result<(), String> {
    match command {
        "ringfence doctor" => same_checks(shown, got),
        _ if command.contains("--json") && !command.contains('|') => {
            let shown: Json = serde_json::from_str(&shown.concat()).map_err(|e| e.to_string())?;
            let got: Json = serde_json::from_str(got).map_err(|e| e.to_string())?;
            is_part_of(&shown, &got, "outcome")
        }
        _ => same_lines(shown, got, world),
    }
}

/// The same checks in the same order. What each of them finds, and how to close a gap, is this host's own.
fn same_checks(shown: &[&str], got: &str) -> Result<(), String> {
    let checks = |line: &str| {
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        let answer = columns.next().filter(|answer| matches!(*answer, "yes" | "no"));
        answer.and_then(|_| columns.next()).map(str::to_owned)
    };
    let shown: Vec<_> = shown.iter().filter_map(|line| checks(line)).collect();
    let got: Vec<_> = got.lines().filter_map(checks).collect();
    if shown.is_empty() || shown != got { Err(format!("{shown:?} and {got:?}")) } else { Ok(()) }
}

/// Every field of an excerpt is there with what is shown, but for what differs from run to run and host to host.
fn is_part_of(shown: &Json, got: &Json, at: &str) -> Result<(), String> {
    const OWN: &[&str] = &["pid", "resources", "gaps"];
    match (shown, got) {
        (Json::Object(shown), Json::Object(_)) => shown.iter().try_for_each(|(name, value)| {
            let Some(other) = got.get(name) else { return Err(format!("{at} has no `{name}`")) };
            if OWN.contains(&name.as_str()) {
                let alike = std::mem::discriminant(value) == std::mem::discriminant(other);
                return if alike { Ok(()) } else { Err(format!("{at}.{name} is {other}")) };
            }
            is_part_of(value, other, &format!("{at}.{name}"))
        }),
        (Json::Array(shown), Json::Array(got)) if shown.len() == got.len() => {
            shown.iter().zip(got).try_for_each(|(a, b)| is_part_of(a, b, at))
        }
        _ if shown == got => Ok(()),
        _ => Err(format!("{at} is {got}")),
    }
}

/// The lines that are shown, in order; a line `…` stands for any number of others. What shows nothing may say anything.
fn same_lines(shown: &[&str], got: &str, world: &World) -> Result<(), String> {
    // The README's own names for what has another here.
    let (work, home) = (world.work().display().to_string(), world.home().display().to_string());
    let got = got.replace(&work, "/home/you/project").replace(&home, "/home/you");
    let by_cgroup = got.lines().any(|line| line.starts_with("resources   cgroup"));
    let mut got = got.lines();
    let mut may_skip = false;
    for line in shown {
        if *line == "…" {
            may_skip = true;
            continue;
        }
        let line = here(line, by_cgroup);
        let mut fits = |other: &str| same_line(line, other);
        let found = if may_skip { got.any(&mut fits) } else { got.next().is_some_and(&mut fits) };
        if !found {
            return Err(format!("no such line, or not there: {line}"));
        }
        // Within a plan, lines between those that are shown are left out where numbers jump.
        may_skip = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    }
    match got.next() {
        Some(rest) if !may_skip && !shown.is_empty() => Err(format!("it also says: {rest}")),
        _ => Ok(()),
    }
}

/// A line as it is here: where cgroups limit memory and processes, rlimits do not.
fn here(line: &str, by_cgroup: bool) -> &str {
    let by_rlimit = line.find(", data ").filter(|_| by_cgroup && line.contains("rlimits"));
    by_rlimit.map_or(line, |at| &line[..at])
}

/// Word by word. Numbers may be others, unless there is nothing else; `…` stands for the rest, and what the host's own tools say has the same speaker and
/// the same reason.
fn same_line(shown: &str, got: &str) -> bool {
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    if is_number(shown) && !shown.contains(' ') {
        return shown == got;
    }
    if let Some((speaker, said)) = shown.split_once(": ")
        && matches!(speaker, "cat" | "sh" | "unshare")
    {
        let reason = said.rsplit(": ").next().unwrap_or_default();
        return got.starts_with(&format!("{speaker}: ")) && got.ends_with(reason);
    }
    let (mut shown, mut got) = (shown.split_whitespace(), got.split_whitespace());
    loop {
        match (shown.next(), got.next()) {
            (Some("…"), _) | (None, None) => return true,
            (Some(a), Some(b)) if a == b || is_number(a) && is_number(b) => {}
            _ => return false,
        }
    }
}

#[test]
fn a_command_that_says_something_else_is_noticed() {
    let world = World::new();
    let shown = ["tier  x", "…", "   3 read /a", "   9 read /b", "end"];
    assert_eq!(
        same_lines(&shown, "tier x\nmore\n 4 read /a\n 5 no\n 6 read /b\nend\n", &world),
        Ok(())
    );
    for got in
        ["tier x\n", "tier y\n4 read /a\n6 read /b\nend", "tier x\n4 read /a\n6 read /b\nend\nmore"]
    {
        assert!(same_lines(&shown, got, &world).is_err(), "{got}");
    }
    assert!(same_line("intact: 9 rows", "intact: 2 rows") && !same_line("45", "46"));
    assert!(same_line("sh: 1: cannot create a: No", "sh: line 1: a: No"));
    assert!(!same_line("cat: .env: Permission denied", "cat: .env: No such file or directory"));
    assert_eq!(blocks("```text\n$ a\nb\n$ c\n```\n```sh\nd\n```\n```rust\ne\n```").len(), 2);
}
