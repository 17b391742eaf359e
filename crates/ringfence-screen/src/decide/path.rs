//! Paths as rules see them: joined to the directory of the call, `~` replaced, `.` and `..` taken out. By text alone:
//! links are the jail's concern.

use super::Call;
use crate::shell::{Direction, Part, Redirect, Word};

/// The paths a call names and those its commands are redirected to.
pub(crate) fn all_of(call: &Call<'_>) -> Vec<Word> {
    let named = call.paths.iter().map(|path| resolved(&Word::known(path), call));
    let redirects =
        call.shape.iter().flat_map(|shape| &shape.commands).flat_map(|simple| &simple.redirects);
    named.chain(redirects.map(|redirect| resolved(&redirect.path, call))).collect()
}

/// Returns true if the redirection can change the file.
pub(crate) fn is_written(redirect: &Redirect) -> bool {
    redirect.direction != Direction::Read
}

/// A path, made absolute if the call has a base for it.
pub(crate) fn resolved(path: &Word, call: &Call<'_>) -> Word {
    let beginning = path.beginning();
    let mut word = path.clone();
    let home = beginning == "~" || beginning.starts_with("~/");
    if home && !call.home.is_empty() {
        replace_beginning(&mut word, &format!("{}{}", call.home, &beginning[1..]));
    } else if !beginning.starts_with(['/', '~']) && !call.cwd.is_empty() {
        let joined = format!("{}/{beginning}", call.cwd);
        if matches!(word.parts.first(), Some(Part::Known(_))) {
            replace_beginning(&mut word, &joined);
        } else if !matches!(word.parts.first(), Some(Part::Unknown)) {
            // An unknown beginning may be absolute; a pattern is not.
            word.parts.insert(0, Part::Known(joined));
        }
    }
    if let Some(text) = word.text() {
        return Word::known(&normal(text));
    }
    word
}

fn replace_beginning(word: &mut Word, text: &str) {
    if let Some(Part::Known(beginning)) = word.parts.first_mut() {
        text.clone_into(beginning);
    }
}

/// Without `//`, `.` and `..`. Above the root there is the root.
pub(crate) fn normal(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn paths_lose_what_hides_them() {
        for (path, expected) in [
            ("/etc/../etc//./passwd", "/etc/passwd"),
            ("/../../x", "/x"),
            ("a/../../b", "../b"),
            ("./a/", "a"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(normal(path), expected, "{path}");
        }
    }
}
