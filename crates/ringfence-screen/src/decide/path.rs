//! Paths as rules see them: joined to the directory of the call, `~` replaced, `.` and `..` taken out. By text alone:
//! links are the jail's concern.

use super::Call;
use crate::shell::{Direction, Part, Redirect, Simple, Word};

/// The paths a call names and those its commands are redirected to.
pub(crate) fn all_of(call: &Call<'_>) -> Vec<Word> {
    let named = call.paths.iter().map(|path| resolved(&Word::known(path), call));
    let redirects =
        call.shape.iter().flat_map(|shape| &shape.commands).flat_map(|simple| &simple.redirects);
    named.chain(redirects.map(|redirect| resolved(&redirect.path, call))).collect()
}

/// Files that well-known programs change by their arguments: `cp a DOCS`, `tee DOCS/x`. For a directory that something is
/// copied to also the file in it.
pub(crate) fn changed_by(simple: &Simple) -> Vec<Word> {
    let program = simple.program().unwrap_or_default();
    let operands = operands(simple);
    match program {
        "cp" | "install" | "ln" | "rsync" => copied_to(simple, &operands),
        "mv" => {
            let mut changed = copied_to(simple, &operands);
            changed.extend(operands.into_iter().cloned());
            changed
        }
        "tee" | "touch" | "mkdir" | "rm" | "rmdir" | "unlink" | "shred" | "truncate" => {
            operands.into_iter().cloned().collect()
        }
        // `dd of=FILE`
        "dd" => operands.into_iter().filter_map(|word| without_beginning(word, "of=")).collect(),
        "sed" | "perl" if super::command::has_option(simple, "-i|--in-place") => {
            operands.into_iter().cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// The arguments that are not options.
fn operands(simple: &Simple) -> Vec<&Word> {
    let mut only_operands = false;
    let is_operand = |word: &&Word| {
        let is_end = !only_operands && word.text() == Some("--");
        only_operands |= is_end;
        only_operands && !is_end || !word.beginning().starts_with('-')
    };
    simple.arguments().iter().filter(is_operand).collect()
}

/// Bytes of the files in a destination that are named one by one; past them, every file in it.
const COPIED_BYTES_MAX: usize = 256 << 10;

/// The destination of a copy, and the files in it if it is a directory.
fn copied_to(simple: &Simple, operands: &[&Word]) -> Vec<Word> {
    let (sources, to) = match (target_directory(simple), operands) {
        (Some(directory), sources) => (sources, directory),
        (None, [sources @ .., to]) => (sources, (*to).clone()),
        (None, []) => return Vec::new(),
    };
    let n_bytes_of_to: usize = to.parts.iter().map(n_bytes_of).sum();
    let mut n_bytes = 0;
    let mut changed = vec![to.clone()];
    for source in sources {
        let Some(name) =
            source.text().and_then(|text| text.trim_end_matches('/').rsplit('/').next())
        else {
            continue;
        };
        n_bytes += n_bytes_of_to + name.len();
        if n_bytes > COPIED_BYTES_MAX {
            let mut any = with_name(&to, "");
            any.parts.push(Part::Unknown);
            changed.push(any);
            break;
        }
        changed.push(with_name(&to, name));
    }
    changed
}

fn n_bytes_of(part: &Part) -> usize {
    match part {
        Part::Known(text) | Part::Glob(text) => text.len(),
        Part::Unknown => 0,
    }
}

/// A file in a directory.
fn with_name(directory: &Word, name: &str) -> Word {
    let mut path = directory.clone();
    match path.parts.last_mut() {
        Some(Part::Known(text)) => *text = format!("{}/{name}", text.trim_end_matches('/')),
        _ => path.parts.push(Part::Known(format!("/{name}"))),
    }
    path
}

/// The directory that is named by an option: `-t DIR`, `-tDIR`, `-vt DIR`, `--target-directory=DIR`.
fn target_directory(simple: &Simple) -> Option<Word> {
    // To rsync `-t` is another option.
    if simple.program() == Some("rsync") {
        return None;
    }
    let mut directory = None;
    let mut arguments = simple.arguments().iter();
    while let Some(word) = arguments.next() {
        let beginning = word.beginning();
        if word.text() == Some("--") {
            break;
        } else if word.text() == Some("--target-directory") {
            directory = arguments.next().cloned();
        } else if let Some(named) = without_beginning(word, "--target-directory=") {
            directory = Some(named);
        } else if let Some(cluster) = beginning.strip_prefix('-')
            && let Some(at) = cluster.find(['t', 'S', 'm', 'o', 'g', '-'])
            && cluster[at..].starts_with('t')
        {
            directory = match &beginning[..at + 2] {
                all if word.text() == Some(all) => arguments.next().cloned(),
                option => without_beginning(word, option),
            };
        }
    }
    directory
}

fn without_beginning(word: &Word, beginning: &str) -> Option<Word> {
    let rest = word.beginning().strip_prefix(beginning)?.to_owned();
    let mut word = word.clone();
    replace_beginning(&mut word, &rest);
    Some(word)
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
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut normal = root.to_owned();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            let last_at = normal.rfind('/').map_or(0, |slash| slash + 1);
            if !matches!(&normal[last_at..], "" | "..") {
                normal.truncate(last_at.saturating_sub(1).max(root.len()));
                continue;
            }
            if root == "/" {
                continue;
            }
        }
        if normal.len() > root.len() {
            normal.push('/');
        }
        normal.push_str(part);
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::{COPIED_BYTES_MAX, changed_by, n_bytes_of, normal};
    use crate::shell::Part;

    /// Each source is a file in the destination: a long one and many of the other would be 300 MB.
    #[test]
    fn the_files_of_a_copy_are_bounded() {
        for to in ["/x", "$x"] {
            let line = format!("cp {} {to}/{}", "a ".repeat(10_000), "y".repeat(30_000));
            let shape = crate::shell::shape(&line);
            let changed = changed_by(&shape.commands[0]);
            let bytes: usize = changed.iter().flat_map(|word| &word.parts).map(n_bytes_of).sum();
            assert!(bytes < COPIED_BYTES_MAX + (64 << 10), "{bytes}");
            // What is not named could be anything there.
            assert!(changed.last().unwrap().parts.ends_with(&[Part::Unknown]));
        }
    }

    #[test]
    fn paths_lose_what_hides_them() {
        for (path, expected) in [
            ("/etc/../etc//./passwd", "/etc/passwd"),
            ("/../../x", "/x"),
            ("a/../../b", "../b"),
            ("a/b/../c/..", "a"),
            ("../../a/..", "../.."),
            ("/a/../..", "/"),
            ("a/..", ""),
            ("/a/b//../c/", "/a/c"),
            ("./a/", "a"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(normal(path), expected, "{path}");
        }
    }
}
