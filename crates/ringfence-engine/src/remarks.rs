//! What the settings of an engine have to say about every run of a kind: notes, and the file that lowered a limit.

use ringfence_spec::{Code, Hint, LimitKind, Outcome, Problem};

/// Remarks on the runs of a kind.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    /// Notes for every outcome.
    pub notes: Vec<String>,
    /// Limits that a file lowered, by their name in settings.
    pub lowered: Vec<LoweredLimit>,
    /// Where paths are set that the caller did not pass as a flag: the setting's name, and the file or variable.
    pub set_in: Vec<(&'static str, String)>,
}

/// A limit that a file lowered: a flag does not raise it.
#[derive(Clone, Debug)]
pub struct LoweredLimit {
    /// Its name in settings.
    pub key: &'static str,
    /// The file.
    pub file: String,
}

impl Remarks {
    /// The file that lowered a limit.
    pub(crate) fn file_of(&self, key: &str) -> Option<&str> {
        self.lowered.iter().find(|limit| limit.key == key).map(|limit| limit.file.as_str())
    }

    /// Adds the notes, and names the file instead of the flag where a limit ended the run.
    pub(crate) fn add_to(&self, outcome: &mut Outcome) {
        for kind in LimitKind::ALL {
            if let Some(file) = self.file_of(kind.name()) {
                let named = Hint::LimitOfFile { kind, file: file.to_owned() };
                outcome.replace_hints(&Hint::Limit(kind), &named);
            }
        }
        outcome.notes.extend(self.notes.iter().cloned());
    }

    /// Names the file instead of the flag in an error about a limit with which nothing starts, and where a path is set that
    /// does not exist.
    pub(crate) fn explain(&self, problem: Problem) -> Problem {
        let named = problem.message.strip_prefix('`').and_then(|rest| rest.split('`').next());
        let named = named.unwrap_or_default().to_owned();
        if problem.code == Code::PathNotFound {
            let problem = with_plain_cause(problem);
            return match self.set_in.iter().find(|(key, _)| *key == named) {
                Some((key, place)) => {
                    let hint = format!(
                        "`{key}` is set in {place}; the path must exist before the run starts"
                    );
                    problem.hint(hint)
                }
                None => problem,
            };
        }
        let is_about = |limit: &&LoweredLimit| limit.key == named;
        match self.lowered.iter().find(is_about) {
            Some(LoweredLimit { key, file }) if problem.code == Code::LimitTooSmall => {
                let hint = format!("raise `{key}` in `{file}`, which sets it");
                let request = format!("to raise `{key}` in `{file}`");
                problem.hint(Hint::operator(hint, request))
            }
            _ => problem,
        }
    }
}

/// Says what the kernel's answer about a path means.
pub(crate) fn with_plain_cause(mut problem: Problem) -> Problem {
    if let Some(cause) = &mut problem.cause {
        let meaning = match cause.rsplit(" = ").next() {
            Some("ENOENT") => "it does not exist",
            Some("ENOTDIR") => "a part of the path is not a directory",
            Some("EACCES") => "this user may not look there",
            Some("ELOOP") => "its links lead in a circle",
            _ => return problem,
        };
        meaning.clone_into(cause);
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_told_in_words_and_where_it_is_set() {
        let remarks =
            Remarks { set_in: vec![("ro", "`/x/config.toml`".to_owned())], ..Remarks::default() };
        let problem = |key: &str| {
            let message = format!("`{key}`: cannot use `/nope`");
            let cause = "openat2(\"/nope\", RESOLVE_NO_SYMLINKS) = ENOENT";
            remarks.explain(Problem::usage(Code::PathNotFound, message).cause(cause))
        };
        assert_eq!(problem("ro").cause.as_deref(), Some("it does not exist"));
        let hint = problem("ro").hint.unwrap().to_string();
        assert!(hint.starts_with("`ro` is set in `/x/config.toml`;"), "{hint}");
        assert_eq!(problem("rw").hint, None);
        let other = Problem::usage(Code::PathNotFound, "x").cause("read = EIO");
        assert_eq!(with_plain_cause(other).cause.as_deref(), Some("read = EIO"));
    }
}
