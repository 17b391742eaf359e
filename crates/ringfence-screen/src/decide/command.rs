//! Rules about one simple command: its program, its options in any spelling, its arguments, the files it writes.

use serde::{Deserialize, Serialize};

use super::glob::Glob;
use super::path::{changed_by, is_written, resolved};
use super::{Call, Gaps};
use crate::shell::{Simple, Word};

/// Characters of a command that are shown.
const SHOWN_CHARS_MAX: usize = 120;

/// A pattern of a command. Every field that is set has to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommandRule {
    /// The program's name without its directory, as a pattern; with a slash, its whole path.
    pub program: Option<Glob>,
    /// Options it has, each with its other spellings: `-r|-R|--recursive`. `-rf`, `-r -f` and `--recursive --force` are
    /// the same to a rule.
    pub options: Vec<String>,
    /// Patterns, each matched by some argument; an argument that is a path also matches in its absolute form.
    pub arguments: Vec<Glob>,
    /// Patterns, each matched by some file that it is redirected to, or that a well-known program (`cp`, `mv`, `tee`, …)
    /// changes by its arguments.
    pub writes: Vec<Glob>,
}

impl CommandRule {
    /// Returns true if a command matches.
    pub(crate) fn matches(&self, simple: &Simple, call: &Call<'_>, gaps: Gaps) -> bool {
        self.matches_program(simple, gaps)
            && self.options.iter().all(|option| has_option(simple, option))
            && self.arguments.iter().all(|glob| {
                simple.arguments().iter().any(|word| {
                    glob.matches(word, gaps) || glob.matches_path(&resolved(word, call), gaps)
                })
            })
            && (self.writes.is_empty() || self.matches_writes(simple, call, gaps))
    }

    fn matches_writes(&self, simple: &Simple, call: &Call<'_>, gaps: Gaps) -> bool {
        let redirects = simple.redirects.iter().filter(|redirect| is_written(redirect));
        let written = redirects.map(|redirect| redirect.path.clone()).chain(changed_by(simple));
        let written: Vec<Word> = written.map(|path| resolved(&path, call)).collect();
        self.writes.iter().all(|glob| written.iter().any(|path| glob.matches_path(path, gaps)))
    }

    fn matches_program(&self, simple: &Simple, gaps: Gaps) -> bool {
        let Some(glob) = &self.program else { return true };
        let Some(first) = simple.words.first() else { return false };
        let by_path = String::from(glob.clone()).contains('/');
        match simple.program() {
            Some(name) if !by_path => glob.matches(&Word::known(name), gaps),
            _ => glob.matches(first, gaps),
        }
    }
}

/// Returns true if a command has an option, in one of its spellings, alone or in a cluster, before `--`.
pub(crate) fn has_option(simple: &Simple, spellings: &str) -> bool {
    let words =
        simple.arguments().iter().map(|word| word.text().unwrap_or_else(|| word.beginning()));
    let mut words = words.take_while(|word| *word != "--");
    words.any(|word| spellings.split('|').any(|spelling| is_option(word, spelling)))
}

fn is_option(word: &str, spelling: &str) -> bool {
    if word == spelling {
        return true;
    }
    if spelling.starts_with("--") {
        return word.strip_prefix(spelling).is_some_and(|rest| rest.starts_with('='));
    }
    match (word.strip_prefix('-'), spelling.strip_prefix('-')) {
        (Some(cluster), Some(letter)) => {
            !cluster.starts_with('-') && letter.len() == 1 && cluster.contains(letter)
        }
        _ => false,
    }
}

/// A command in one line.
pub(crate) fn shown(simple: &Simple) -> String {
    let words: Vec<String> = simple.words.iter().map(Word::shown).collect();
    words.join(" ").chars().take(SHOWN_CHARS_MAX).collect()
}
