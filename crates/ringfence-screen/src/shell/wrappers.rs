//! Programs that run other programs, as data: which options take a value, and where the other program begins.

use super::shells::{SHELLS, language, script, shell};
use super::tree::{Input, Position, ShellPart};
use super::words::Word;
use super::{Reason, Simple, scripts};

/// A program whose arguments are another command.
struct Wrapper {
    name: &'static str,
    /// Options that take the next word as their value.
    with_value: &'static [&'static str],
    /// Words of its own in front of the command: the seconds of `timeout`.
    n_own: usize,
    /// True if `A=b` may precede the command.
    assignments: bool,
}

const fn wrapper(name: &'static str, with_value: &'static [&'static str]) -> Wrapper {
    Wrapper { name, with_value, n_own: 0, assignments: false }
}

/// Every program that is seen through.
static WRAPPERS: &[Wrapper] = &[
    Wrapper {
        name: "sudo",
        with_value: &[
            "-u", "-g", "-h", "-p", "-C", "-T", "-r", "-t", "-U", "-D", "-R", "--user", "--group",
            "--host", "--prompt", "--chdir", "--chroot",
        ],
        n_own: 0,
        assignments: true,
    },
    Wrapper { name: "doas", with_value: &["-u", "-C"], n_own: 0, assignments: true },
    Wrapper {
        name: "env",
        with_value: &["-u", "--unset", "-C", "--chdir"],
        n_own: 0,
        assignments: true,
    },
    wrapper("nohup", &[]),
    wrapper("setsid", &[]),
    wrapper("nice", &["-n", "--adjustment"]),
    wrapper("ionice", &["-c", "-n", "--class", "--classdata"]),
    wrapper("stdbuf", &["-i", "-o", "-e"]),
    wrapper("unbuffer", &[]),
    Wrapper {
        name: "timeout",
        with_value: &["-s", "-k", "--signal", "--kill-after"],
        n_own: 1,
        assignments: false,
    },
    wrapper("time", &["-f", "-o", "--format", "--output"]),
    wrapper("exec", &["-a"]),
    wrapper("command", &[]),
    wrapper("builtin", &[]),
    wrapper("busybox", &[]),
    wrapper("toybox", &[]),
    wrapper(
        "xargs",
        &[
            "-I",
            "-i",
            "-n",
            "-P",
            "-L",
            "-d",
            "-a",
            "-E",
            "-s",
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--replace",
            "--arg-file",
        ],
    ),
    wrapper("parallel", &["-j", "--jobs", "-I", "-a"]),
    wrapper("strace", &["-o", "-e", "-p", "-s", "-u"]),
    wrapper("ltrace", &["-o", "-e", "-p", "-s", "-u"]),
    Wrapper { name: "chroot", with_value: &[], n_own: 1, assignments: false },
    wrapper("unshare", &["-S", "-G", "-R", "-w", "--root", "--wd"]),
    wrapper("nsenter", &["-t", "--target", "-S", "-G"]),
    Wrapper { name: "flock", with_value: &["-w", "-E", "--timeout"], n_own: 1, assignments: false },
    Wrapper { name: "taskset", with_value: &[], n_own: 1, assignments: false },
    wrapper("proxychains", &["-f"]),
    wrapper("torsocks", &[]),
    wrapper("watch", &["-n", "-d", "--interval"]),
    wrapper("pkexec", &["--user"]),
    wrapper("firejail", &[]),
    wrapper("caffeinate", &["-t", "-w"]),
    wrapper("dbus-run-session", &[]),
    wrapper("xvfb-run", &["-n", "-s", "-e"]),
];

/// Lists a command, and the commands that it would run.
pub(crate) fn add(simple: Simple, place: &Position, found: &mut ShellPart) {
    if place.is_too_deep() {
        return found.opaque(Reason::TooDeep);
    }
    let Some(first) = simple.words.first() else {
        let something = !simple.assignments.is_empty() || !simple.redirects.is_empty();
        if something {
            found.list(simple);
        }
        return;
    };
    if first.text().is_none() {
        found.opaque(Reason::UnknownProgram { program: first.shown() });
        found.list(simple);
        return;
    }
    let program = simple.program().unwrap_or_default().to_owned();
    let words = simple.words.clone();
    let arguments = &words[1..];
    if !found.list(simple) {
        return;
    }
    match program.as_str() {
        "eval" => eval(arguments, place, found),
        "trap" => script(&program, arguments.first(), place, found),
        "find" | "fd" | "fdfind" => find(&program, arguments, place, found),
        "ssh" => ssh(arguments, place, found),
        "su" | "runuser" | "script" => option_script(&program, arguments, place, found),
        name if SHELLS.contains(&name) => shell(name, arguments, place, found),
        name if language(name, arguments) => {
            found.opaque(Reason::OtherLanguage { program: name.to_owned() });
        }
        name => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => wrapped(wrapper, arguments, place, found),
            None => unknown_wrapper(name, arguments, found),
        },
    }
}

/// The command behind a wrapper's own options.
fn wrapped(wrapper: &Wrapper, arguments: &[Word], place: &Position, found: &mut ShellPart) {
    let place = place.under(wrapper.name);
    let mut at = 0;
    let mut assignments = Vec::new();
    let mut n_own = wrapper.n_own;
    while let Some(word) = arguments.get(at) {
        let Some(text) = word.text() else {
            if n_own > 0 && !word.beginning().starts_with('-') {
                n_own -= 1;
                at += 1;
                continue;
            }
            break;
        };
        if text == "--" {
            at += 1;
            break;
        }
        // `env -S 'a b'` splits a string into a command; `watch`, `flock -c` and `parallel` take a script.
        let split =
            wrapper.name == "env" && matches!(text, "-S" | "--split-string" | "-vS" | "-iS");
        if split || (wrapper.name == "flock" && matches!(text, "-c" | "--command")) {
            return script(wrapper.name, arguments.get(at + 1), &place, found);
        }
        if let Some(joined) = text.strip_prefix("--split-string=") {
            return scripts::read(joined, &place, found);
        }
        if text.len() > 1 && text.starts_with('-') {
            at += 1 + usize::from(wrapper.with_value.contains(&text));
        } else if let (true, Some((name, value))) = (wrapper.assignments, text.split_once('=')) {
            assignments
                .push(super::Assignment { name: name.to_owned(), value: Word::known(value) });
            at += 1;
        } else if n_own > 0 {
            n_own -= 1;
            at += 1;
        } else {
            break;
        }
    }
    let Some(words) = arguments.get(at..).filter(|words| !words.is_empty()) else { return };
    if matches!(wrapper.name, "watch" | "parallel") {
        return eval(words, &place, found);
    }
    let mut words = words.to_vec();
    let mut place = place;
    if wrapper.name == "xargs" {
        // It adds words from its input, which the command itself does not get.
        words.push(Word::unknown());
        (place.input, place.fed_by) = (Some(Input::Hidden("/dev/null".into())), Vec::new());
    }
    let simple = Simple {
        words,
        assignments,
        within: place.within.clone(),
        fed_by: place.fed_by.clone(),
        ..Simple::default()
    };
    add(simple, &place, found);
}

/// All words, joined, are a script.
fn eval(words: &[Word], place: &Position, found: &mut ShellPart) {
    let place = if place.within.last().is_some_and(|last| last == "watch" || last == "parallel") {
        place.deeper()
    } else {
        place.under("eval")
    };
    let known: Option<Vec<&str>> = words.iter().map(Word::text).collect();
    match known {
        // Read once: a parser would make the same words of them, at every `eval` again.
        Some(texts) if is_one_command(&texts) => {
            let (within, fed_by) = (place.within.clone(), place.fed_by.clone());
            let words = words.to_vec();
            add(Simple { words, within, fed_by, ..Simple::default() }, &place, found);
        }
        Some(words) => scripts::read(&words.join(" "), &place, found),
        None => found.opaque(Reason::UnknownScript {
            program: place.within.last().cloned().unwrap_or_default(),
        }),
    }
}

/// Returns true if a shell takes words for one simple command of exactly these words: no signs, no assignment, no
/// reserved word.
fn is_one_command(words: &[&str]) -> bool {
    const RESERVED: &[&str] = &[
        "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
        "in", "select", "then", "time", "until", "while",
    ];
    let is_plain = |word: &&str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_@%+:,./-".contains(&b);
        !word.is_empty() && word.bytes().all(plain)
    };
    words.first().is_some_and(|first| !RESERVED.contains(first)) && words.iter().all(is_plain)
}

/// `su -c '…'`, `script -c '…'`.
fn option_script(program: &str, arguments: &[Word], place: &Position, found: &mut ShellPart) {
    for (at, word) in arguments.iter().enumerate() {
        match word.text() {
            Some("-c" | "--command") => {
                return script(program, arguments.get(at + 1), place, found);
            }
            Some(text) if text.starts_with("--command=") => {
                return scripts::read(&text["--command=".len()..], &place.under(program), found);
            }
            Some("--") if program == "runuser" => {
                return wrapped(&wrapper("runuser", &[]), &arguments[at + 1..], place, found);
            }
            _ => {}
        }
    }
}

/// `find … -exec rm {} ;`, as often as it is there.
fn find(program: &str, arguments: &[Word], place: &Position, found: &mut ShellPart) {
    let mut at = 0;
    while at < arguments.len() {
        let text = arguments[at].text().unwrap_or_default();
        at += 1;
        if !matches!(
            text,
            "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
        ) {
            continue;
        }
        let rest = &arguments[at..];
        let n = rest
            .iter()
            .position(|word| matches!(word.text(), Some(";" | "+")))
            .unwrap_or(rest.len());
        // The names it puts in are not known.
        let words = rest[..n].iter().map(|word| match word.text() {
            Some(text) if text.contains("{}") => Word::unknown(),
            _ => word.clone(),
        });
        let place = place.under(program);
        let simple =
            Simple { words: words.collect(), within: place.within.clone(), ..Simple::default() };
        add(simple, &place, found);
        at += n;
    }
}

/// Parses the commands that `ssh` runs locally: `ProxyCommand` and `LocalCommand`. The remote command is not parsed.
fn ssh(arguments: &[Word], place: &Position, found: &mut ShellPart) {
    for word in arguments {
        let text = word.text().unwrap_or_default();
        let text = text.strip_prefix("-o").unwrap_or(text);
        for option in ["ProxyCommand=", "LocalCommand=", "ProxyCommand ", "LocalCommand "] {
            if let Some(command) = text.strip_prefix(option) {
                scripts::read(command, &place.under("ssh"), found);
            }
        }
    }
}

/// A program that is not known, with a shell and a script among its words.
fn unknown_wrapper(program: &str, arguments: &[Word], found: &mut ShellPart) {
    // These print their words, or search for them.
    const HARMLESS: &[&str] =
        &["echo", "printf", "grep", "rg", "test", "[", "man", "which", "type", "git", "cat", "ls"];
    if HARMLESS.contains(&program) {
        return;
    }
    let handed = arguments.windows(2).any(|pair| {
        let name = pair[0].text().map(|text| text.rsplit('/').next().unwrap_or(text));
        let option = pair[1].beginning();
        name.is_some_and(|name| SHELLS.contains(&name))
            && option.starts_with('-')
            && !option.starts_with("--")
            && option.contains('c')
    });
    if handed {
        found.opaque(Reason::UnknownWrapper { program: program.to_owned() });
    }
}
