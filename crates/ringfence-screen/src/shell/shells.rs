//! Programs that run scripts: shells, whose scripts are parsed, and interpreters of other languages, whose scripts are
//! not.

use super::tree::{Input, Position, ShellPart};
use super::words::Word;
use super::{Reason, scripts};

/// Programs that read the grammar that is read here.
pub(crate) const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash"];

/// Programs that take a script of another language as text, and with which options.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("python", &["-c"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("node", &["-e", "--eval", "-p", "--print"]),
    ("deno", &["eval"]),
    ("bun", &["-e", "--eval"]),
    ("php", &["-r"]),
    ("lua", &["-e"]),
    ("Rscript", &["-e"]),
    ("osascript", &["-e"]),
    ("pwsh", &["-c", "-Command", "-EncodedCommand", "-e"]),
    ("fish", &["-c"]),
    ("tclsh", &["-c"]),
];

/// Reads one word as a script.
pub(crate) fn script(program: &str, word: Option<&Word>, place: &Position, found: &mut ShellPart) {
    let place = if place.within.last().is_some_and(|last| last == program) {
        place.deeper()
    } else {
        place.under(program)
    };
    match word.map(Word::text) {
        Some(Some(text)) => scripts::read(text, &place, found),
        Some(None) => found.opaque(Reason::UnknownScript { program: program.to_owned() }),
        None => {}
    }
}

/// A shell: a script in an option, in a file, or on its input.
pub(crate) fn shell(program: &str, arguments: &[Word], place: &Position, found: &mut ShellPart) {
    let mut at = 0;
    let mut reads_input = false;
    while let Some(word) = arguments.get(at) {
        let Some(text) = word.text() else {
            // `bash -c"$x"`, or options that are not known.
            found.opaque(Reason::UnknownScript { program: program.to_owned() });
            return;
        };
        if text == "--" || text == "-" {
            at += 1;
            break;
        }
        let Some(letters) = text.strip_prefix(['-', '+']) else { break };
        if matches!(text, "--rcfile" | "--init-file" | "-o" | "+o" | "-O" | "+O") {
            at += 2;
            continue;
        }
        if !letters.starts_with('-') && letters.contains('c') {
            // Behind `-c`, options may go on before the script does.
            let rest = &arguments[at + 1..];
            let skip = rest.iter().take_while(|word| word.beginning().starts_with('-')).count();
            return script(program, rest.get(skip), place, found);
        }
        reads_input |= !letters.starts_with('-') && letters.contains('s');
        at += 1;
    }
    let file = arguments.get(at).is_some() && !reads_input;
    if file
        && !arguments[at]
            .text()
            .is_some_and(|path| matches!(path, "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"))
    {
        if arguments[at].text().is_none() {
            found.opaque(Reason::UnknownScript { program: program.to_owned() });
        }
        return;
    }
    match &place.input {
        Some(Input::Text(text)) => {
            let mut inner = place.under(program);
            let text = text.clone();
            inner.input = None;
            scripts::read(&text, &inner, found);
        }
        Some(Input::Hidden(from)) => {
            found.opaque(Reason::ShellReadsInput {
                program: program.to_owned(),
                from: from.clone(),
            });
        }
        None => found
            .opaque(Reason::ShellReadsInput { program: program.to_owned(), from: String::new() }),
    }
}

/// Returns true if an interpreter of another language gets a program as text or by its input.
pub(crate) fn language(name: &str, arguments: &[Word]) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    LANGUAGES.iter().any(|(language, options)| {
        *language == plain
            && arguments.iter().any(|word| {
                let text = word.text().unwrap_or_else(|| word.beginning());
                options.iter().any(|option| {
                    text == *option
                        || (option.len() == 2 && text.starts_with(option))
                        || is_cluster(text, option)
                })
            })
    })
}

/// Returns true if a short option is part of a cluster: `-Sc`, `-ne`.
fn is_cluster(text: &str, option: &str) -> bool {
    let (Some(letters), Some(letter)) = (text.strip_prefix('-'), option.strip_prefix('-')) else {
        return false;
    };
    letter.len() == 1
        && letters.len() <= 4
        && letters.bytes().all(|b| b.is_ascii_alphabetic())
        && letters.ends_with(letter)
}
