//! Reads git's configuration files and finds the values by which they name something that git executes or obeys.
//! Pure: takes bytes, opens nothing. A line that git would refuse is passed over, so the answer can only name too much.

use std::borrow::Borrow;
use std::sync::Arc;

/// Maximum number of variables kept of one file; git's own files have some dozens.
pub(super) const VARIABLES_MAX: usize = 4096;

/// Merge strategies that are part of git: merge-strategies in git-merge(1). Of another one git runs the program.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    /// `core`, in lower case.
    pub(super) section: Arc<str>,
    /// The quoted part of `[filter "lfs"]`.
    pub(super) subsection: Option<Arc<str>>,
    /// `hookspath`, in lower case.
    pub(super) key: String,
    /// Its value; empty where only the name stands.
    pub(super) value: String,
}

/// Effect of a variable on git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A file that is read as more configuration.
    Include,
    /// A directory of hooks.
    Hooks,
    /// A directory whose content, including hooks, is copied into new repositories.
    Template,
    /// A command, run by a shell or as a program.
    Command,
    /// The hash of the object names: decides the layout of the index.
    ObjectFormat,
    /// The checkout that a git directory belongs to.
    Worktree,
    /// Turns reading of `config.worktree` on.
    WorktreeConfig,
    /// An address, or a permission for addresses: one such as `ext::sh …` names a program.
    Transport,
}

/// Keys that execute or redirect, from git-config(1), gitattributes(5), git-submodule(1), git-difftool(1),
/// git-mergetool(1), git-send-email(1) and git-hook(1) of git 2.47 to 2.52, and git-lfs-config(5). `*` stands for any subsection, or for none.
const ROLES: &[(&str, &str, Role)] = &[
    ("include", "path", Role::Include),
    ("includeif", "path", Role::Include),
    ("core", "hookspath", Role::Hooks),
    ("core", "worktree", Role::Worktree),
    ("extensions", "objectformat", Role::ObjectFormat),
    ("extensions", "worktreeconfig", Role::WorktreeConfig),
    ("branch", "pushremote", Role::Transport),
    ("branch", "remote", Role::Transport),
    ("protocol", "allow", Role::Transport),
    ("remote", "pushurl", Role::Transport),
    ("remote", "url", Role::Transport),
    ("remote", "vcs", Role::Transport),
    ("submodule", "url", Role::Transport),
    ("url", "insteadof", Role::Transport),
    ("url", "pushinsteadof", Role::Transport),
    ("init", "templatedir", Role::Template),
    ("core", "alternaterefscommand", Role::Command),
    ("core", "askpass", Role::Command),
    ("core", "editor", Role::Command),
    ("core", "fsmonitor", Role::Command),
    ("core", "gitproxy", Role::Command),
    ("core", "pager", Role::Command),
    ("core", "sshcommand", Role::Command),
    ("browser", "cmd", Role::Command),
    ("browser", "path", Role::Command),
    ("credential", "helper", Role::Command),
    ("diff", "command", Role::Command),
    ("diff", "external", Role::Command),
    ("diff", "textconv", Role::Command),
    ("difftool", "cmd", Role::Command),
    ("difftool", "path", Role::Command),
    ("filter", "clean", Role::Command),
    ("filter", "process", Role::Command),
    ("filter", "smudge", Role::Command),
    ("gc", "recentobjectshook", Role::Command),
    ("gpg", "defaultkeycommand", Role::Command),
    ("gpg", "program", Role::Command),
    ("guitool", "cmd", Role::Command),
    ("hook", "command", Role::Command),
    ("imap", "tunnel", Role::Command),
    ("instaweb", "httpd", Role::Command),
    ("interactive", "difffilter", Role::Command),
    ("lfs", "clean", Role::Command),
    ("lfs", "path", Role::Command),
    ("lfs", "smudge", Role::Command),
    ("man", "cmd", Role::Command),
    ("man", "path", Role::Command),
    ("merge", "driver", Role::Command),
    ("mergetool", "cmd", Role::Command),
    ("mergetool", "path", Role::Command),
    ("remote", "receivepack", Role::Command),
    ("remote", "uploadpack", Role::Command),
    ("sendemail", "cccmd", Role::Command),
    ("sendemail", "headercmd", Role::Command),
    ("sendemail", "sendmailcmd", Role::Command),
    ("sendemail", "smtpserver", Role::Command),
    ("sendemail", "tocmd", Role::Command),
    ("sequence", "editor", Role::Command),
    ("submodule", "update", Role::Command),
    ("tar", "command", Role::Command),
    ("trailer", "cmd", Role::Command),
    ("trailer", "command", Role::Command),
    ("uploadpack", "packobjectshook", Role::Command),
    ("web", "browser", Role::Command),
];

/// Sections in which every key is a command.
const COMMAND_SECTIONS: &[&str] = &["alias", "pager"];

impl Variable {
    /// The variable's effect, if it can execute something.
    pub(super) fn role(&self) -> Option<Role> {
        if COMMAND_SECTIONS.contains(&&*self.section) {
            return Some(Role::Command);
        }
        let row =
            ROLES.iter().find(|(section, key, _)| *section == &*self.section && *key == self.key);
        row.map(|(_, _, role)| *role)
    }
}

/// The first variables of a file, in order.
pub(super) fn parse(bytes: &[u8]) -> Vec<Variable> {
    variables(bytes).take(VARIABLES_MAX).collect()
}

/// All variables of a file, in order.
fn variables(bytes: &[u8]) -> impl Iterator<Item = Variable> {
    // git-config(1) does not mention it, but git skips the byte order mark that editors on Windows write.
    let at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut reader = Reader { bytes, at };
    let (mut section, mut subsection) = (Arc::from(""), None);
    std::iter::from_fn(move || {
        loop {
            match reader.next()? {
                b'\n' | b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {}
                b'#' | b';' => reader.skip_line(),
                b'[' => {
                    if let Some((name, sub)) = reader.header() {
                        (section, subsection) = (Arc::from(name), sub.map(Arc::from));
                    }
                }
                byte if byte.is_ascii_alphabetic() => {
                    let (key, value) = reader.variable(byte);
                    let (section, subsection) = (Arc::clone(&section), subsection.clone());
                    return Some(Variable { section, subsection, key, value });
                }
                _ => reader.skip_line(),
            }
        }
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next byte; a CRLF line end counts as one newline.
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        if byte == b'\r' && self.bytes.get(self.at) == Some(&b'\n') {
            self.at += 1;
            return Some(b'\n');
        }
        Some(byte)
    }

    fn skip_line(&mut self) {
        while let Some(byte) = self.next() {
            if byte == b'\n' {
                break;
            }
        }
    }

    /// `section]`, `section "sub"]` or the old `section.sub]`.
    fn header(&mut self) -> Option<(String, Option<String>)> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => break,
                b'\n' => return None,
                b' ' | b'\t' => {
                    let sub = self.quoted_subsection()?;
                    return Some((lower(&name), Some(sub)));
                }
                byte => name.push(byte),
            }
        }
        let name = lower(&name);
        match name.split_once('.') {
            Some((section, sub)) => Some((section.to_owned(), Some(sub.to_owned()))),
            None => Some((name, None)),
        }
    }

    fn quoted_subsection(&mut self) -> Option<String> {
        let mut sub = Vec::new();
        loop {
            match self.next()? {
                b' ' | b'\t' => {}
                b'"' => break,
                _ => return None,
            }
        }
        loop {
            match self.next()? {
                b'"' => break,
                b'\n' => return None,
                // "Other characters preceded by a backslash are read as they are."
                b'\\' => sub.push(self.next()?),
                byte => sub.push(byte),
            }
        }
        while self.next()? != b']' {}
        Some(String::from_utf8_lossy(&sub).into_owned())
    }

    /// A name that begins with `first`, and the value after its `=`.
    fn variable(&mut self, first: u8) -> (String, String) {
        let mut name = vec![first];
        loop {
            match self.next() {
                Some(byte) if byte.is_ascii_alphanumeric() || byte == b'-' => name.push(byte),
                Some(b' ' | b'\t') => {}
                Some(b'=') => return (lower(&name), self.value()),
                Some(b'\n') | None => return (lower(&name), String::new()),
                Some(_) => {
                    self.skip_line();
                    return (lower(&name), String::new());
                }
            }
        }
    }

    fn value(&mut self) -> String {
        let mut value = Vec::new();
        // Length without trailing white space.
        let mut kept = 0;
        let mut quoted = false;
        while let Some(byte) = self.next() {
            match byte {
                b'\n' => break,
                b'#' | b';' if !quoted => {
                    self.skip_line();
                    break;
                }
                b'"' => quoted = !quoted,
                b'\\' => match self.next() {
                    Some(b'\n') | None => {}
                    Some(escaped) => {
                        value.push(match escaped {
                            b'n' => b'\n',
                            b't' => b'\t',
                            b'b' => 8,
                            other => other,
                        });
                        kept = value.len();
                    }
                },
                b' ' | b'\t' | b'\r' if !quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                }
                byte => {
                    value.push(byte);
                    kept = value.len();
                }
            }
        }
        value.truncate(kept);
        String::from_utf8_lossy(&value).into_owned()
    }
}

fn lower(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

/// A path that a command may execute or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Its text, unchanged.
    pub(super) text: String,
    /// True if it can only be a path: it begins with `./` or `../`, or is the program itself and a relative path with a
    /// slash.
    pub(super) surely: bool,
}

/// The words of a command that may be paths. Splits at everything a shell splits at, so that a path in quotes, after a
/// redirection or behind `$(git rev-parse --show-toplevel)` is found too.
pub(super) fn words(command: &str) -> Vec<Word> {
    let command = command.strip_prefix('!').unwrap_or(command);
    let is_break = |c: char| c.is_whitespace() || "\"'`$;|&<>(){}=,:".contains(c);
    let mut first = true;
    let mut words = Vec::new();
    for text in command.split(is_break).filter(|text| !text.is_empty()) {
        let dotted = text.starts_with("./") || text.starts_with("../");
        let surely = dotted || (first && text.contains('/') && !text.starts_with('/'));
        first = false;
        let plain = text.chars().any(char::is_alphanumeric);
        if plain && !text.starts_with('-') {
            words.push(Word { text: text.to_owned(), surely });
        }
    }
    words
}

/// Returns true if a configuration file names anything that git executes, or includes another file.
pub(crate) fn executes(bytes: &[u8]) -> bool {
    variables(bytes).any(|variable| match variable.role() {
        Some(Role::Command) => {
            let needs_mark = matches!(&*variable.section, "alias" | "submodule");
            !is_switch(&variable.value) && (!needs_mark || variable.value.starts_with('!'))
        }
        Some(Role::Include | Role::Hooks | Role::Template | Role::Worktree) => true,
        Some(Role::Transport) => {
            let is_helper = |text: &str| text.contains("::");
            matches!((&*variable.section, &*variable.key), ("protocol", _) | (_, "vcs"))
                || is_helper(&variable.value)
                || variable.subsection.as_deref().is_some_and(is_helper)
        }
        Some(Role::WorktreeConfig | Role::ObjectFormat) | None => false,
    })
}

/// Bytes of an object name in the repository of a configuration file, which includes no other.
pub(crate) fn hash_bytes(bytes: &[u8]) -> usize {
    hash_bytes_by(variables(bytes))
}

/// The same by its variables.
pub(super) fn hash_bytes_by<V: Borrow<Variable>>(variables: impl Iterator<Item = V>) -> usize {
    let formats = variables.filter(|variable| variable.borrow().role() == Some(Role::ObjectFormat));
    match formats.last() {
        Some(last) if last.borrow().value.eq_ignore_ascii_case("sha256") => 32,
        _ => 20,
    }
}

/// Returns true if the options of an unfinished operation, a file in the format of a configuration, name a merge strategy
/// that is not part of git.
pub(crate) fn names_a_strategy(bytes: &[u8]) -> bool {
    variables(bytes)
        .any(|variable| variable.key == "strategy" && is_foreign_strategy(&variable.value))
}

/// Returns true for the name of a merge strategy that is not part of git.
pub(crate) fn is_foreign_strategy(name: &str) -> bool {
    !name.is_empty() && !STRATEGIES.contains(&name)
}

/// Returns true if the value of a switch is off. A name without a value is on.
pub(super) fn is_no(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0")
}

/// Returns true if the value of a key that takes a command or a switch is a switch.
pub(super) fn is_switch(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    matches!(lower.as_str(), "" | "true" | "false" | "yes" | "no" | "on" | "off" | "0" | "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_testing::BoundedCommand as _;
    use std::process::Command;

    fn shown(text: &str) -> Vec<String> {
        let line = |v: Variable| match v.subsection {
            Some(sub) => format!("{}.{sub}.{}={}", v.section, v.key, v.value),
            None => format!("{}.{}={}", v.section, v.key, v.value),
        };
        parse(text.as_bytes()).into_iter().map(line).collect()
    }

    /// Texts that git accepts, in all the ways its documentation allows.
    const TEXTS: &[&str] = &[
        "[core]\n\thooksPath = .husky/_\n",
        "[CORE] HooksPath=a # comment\n\n; another\n[include]\npath = \"../x y\"\n",
        "[filter \"a \\\"b\\\\c\"]\n\tclean = sh ./f.sh \\\n  --more\n",
        "[Filter.Old]clean = x\n[alias]\n  st = \"!f() { ./x; }; f\"\n",
        "\u{feff}[core]\r\n\tbare = false\r\n\tfsmonitor\r\n",
        "[a]b=\"c;d\" ; e\n[a]\nb = c \"  d  \" e   \n",
        "[submodule \"lib\"]\n\tpath = vendor/lib\n\tupdate = !sh x\n[x-y]\nz9-z = 1\n",
        "[core]\n\tworktree = \"../../../sub dir\"\\t\n",
    ];

    #[test]
    fn variables_are_read_as_git_reads_them() {
        for text in TEXTS {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("config");
            std::fs::write(&file, text).unwrap();
            let listed = Command::new("git")
                .args(["config", "--list", "-z", "--file"])
                .arg(&file)
                .bounded_output()
                .unwrap();
            assert!(
                listed.status.success(),
                "{text:?}: {}",
                String::from_utf8_lossy(&listed.stderr)
            );
            let gits: Vec<String> = String::from_utf8(listed.stdout)
                .unwrap()
                .split_terminator('\0')
                .map(|entry| match entry.split_once('\n') {
                    Some((key, value)) => format!("{key}={value}"),
                    None => format!("{entry}="),
                })
                .collect();
            assert_eq!(shown(text), gits, "{text:?}");
        }
    }

    #[test]
    fn nonsense_neither_panics_nor_hides_what_follows() {
        let text =
            "[\n[core \"x\n[core]\nhooksPath = a\n=\n[[]]\n[b \"\\\n\n[core]\nfsmonitor = x\\";
        let keys: Vec<String> = parse(text.as_bytes()).into_iter().map(|v| v.key).collect();
        assert!(keys.contains(&"hookspath".to_owned()), "{keys:?}");
        for end in 0..text.len() {
            parse(&text.as_bytes()[..end]);
        }
    }

    #[test]
    fn a_command_names_its_paths() {
        let texts = |command: &str| -> Vec<(String, bool)> {
            words(command).into_iter().map(|w| (w.text, w.surely)).collect()
        };
        let word = |text: &str, surely| (text.to_owned(), surely);
        assert_eq!(texts("sh ./f.sh"), [word("sh", false), word("./f.sh", true)]);
        assert_eq!(texts("tools/monitor -x"), [word("tools/monitor", true)]);
        assert_eq!(
            texts("\"$(git rev-parse --show-toplevel)/tools/f\" %f"),
            [
                word("git", false),
                word("rev-parse", false),
                word("/tools/f", false),
                word("%f", false)
            ]
        );
        assert_eq!(texts("sed -e s/a/b/"), [word("sed", false), word("s/a/b/", false)]);
        assert_eq!(texts("!f() { ./x; }; f")[1], word("./x", true));
    }
}
