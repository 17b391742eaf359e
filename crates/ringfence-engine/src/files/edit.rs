//! Changes parts of a text file: each edit names the text that is there and the text that replaces it. All of them are
//! applied, or none. Memory and time of a call are bounded, whatever its edits would make of the file.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use ringfence_spec::{Code, Problem};
use serde::Deserialize;

use super::path::GuestPath;
use super::{ContentKind, Precondition, Workspace, WriteOptions, WrittenFile, problems};

/// Edits of one call.
const EDITS_MAX: usize = 1000;

/// Bytes that the edits of one call may search in all: 1000 edits of a file of 2 MiB, or 200 of one of 10 MiB.
const SEARCHED_BYTES_MAX: u64 = 2 << 30;

/// Time that the edits of one call may take.
const DURATION_MAX: Duration = Duration::from_secs(10);

/// Matches after which the deadline is checked.
const MATCHES_PER_CHECK: usize = 1 << 16;

/// Characters of a text that an error shows.
const SHOWN_CHARS: usize = 60;

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Text in the file, as it stands, with its line ends and spaces.
    pub old: String,
    /// Text in its place.
    pub new: String,
    /// True to replace every occurrence; else there must be one.
    #[serde(default)]
    pub all: bool,
}

impl Workspace {
    /// Applies edits to a text file, each to the result of the one before. Writes the file once, or not at all.
    pub fn edit(
        &self,
        path: impl AsRef<OsStr>,
        edits: &[Edit],
    ) -> Result<(WrittenFile, usize), Problem> {
        self.edit_if(path, edits, &Precondition::Any)
    }

    /// Applies edits to a text file if its state is as expected, when it is read and when it is written.
    pub fn edit_if(
        &self,
        path: impl AsRef<OsStr>,
        edits: &[Edit],
        when: &Precondition,
    ) -> Result<(WrittenFile, usize), Problem> {
        let act = "edit";
        let path = path.as_ref();
        let shown = GuestPath::parse(act, path)?;
        self.check_may_change(act, &shown)?;
        if *when != Precondition::Any {
            // Before the edits are looked at (RFC 9110, section 13.2.1).
            let found = self.find(act, &shown)?;
            when.check(act, &shown.to_string(), Some(&found.seen.stat))?;
        }
        let shown = shown.to_string();
        if edits.is_empty() || edits.len() > EDITS_MAX {
            let message =
                format!("cannot edit `{shown}`: {} edits, of 1 to {EDITS_MAX}", edits.len());
            return Err(Problem::usage(Code::BadArguments, message));
        }
        let contents = self.read(path, 0, None)?;
        if contents.more {
            let why = format!("it has {} bytes", contents.total_bytes);
            return Err(problems::too_large(act, &shown, why));
        }
        let text = match contents.kind {
            ContentKind::Text => String::from_utf8(contents.bytes).ok(),
            ContentKind::Binary => None,
        };
        let mut text = text.ok_or_else(|| {
            Problem::usage(Code::NotText, format!("cannot edit `{shown}`: it is not text"))
                .hint("write the whole file instead")
        })?;
        let mut budget = EditBudget {
            file_bytes_max: self.rules.file_bytes_max,
            searched_bytes_left: SEARCHED_BYTES_MAX,
            deadline: Instant::now() + DURATION_MAX,
        };
        let mut n_replaced = 0;
        for (n, edit) in edits.iter().enumerate() {
            n_replaced += apply(&mut text, edit, &mut budget).map_err(|refusal| match refusal {
                Refusal::Mismatch { why, hint } => {
                    let message = format!("cannot edit `{shown}`: edit {} {why}", n + 1);
                    Problem::usage(Code::EditMismatch, message).hint(hint)
                }
                Refusal::OverLimit { why, hint } => {
                    problems::too_large(act, &shown, format!("edit {} {why}", n + 1)).hint(hint)
                }
            })?;
        }
        let written = self.write_if(path, text.as_bytes(), WriteOptions::default(), when)?;
        Ok((written, n_replaced))
    }
}

/// Limits of one call, and what is left of them.
#[derive(Debug)]
struct EditBudget {
    file_bytes_max: u64,
    searched_bytes_left: u64,
    deadline: Instant,
}

impl EditBudget {
    /// Takes the bytes of one search.
    fn take(&mut self, n_bytes: usize) -> Result<(), Refusal> {
        self.searched_bytes_left =
            self.searched_bytes_left.checked_sub(n_bytes as u64).ok_or_else(|| {
                let mib = SEARCHED_BYTES_MAX >> 20;
                Refusal::over_limit(format!("would search more than {mib} MiB in one call"))
            })?;
        self.check_deadline()
    }

    fn check_deadline(&self) -> Result<(), Refusal> {
        if Instant::now() < self.deadline {
            return Ok(());
        }
        let s = DURATION_MAX.as_secs();
        Err(Refusal::over_limit(format!("is not done {s} s after the start of the call")))
    }

    /// Returns the size of a text of `n_bytes` after `n` replacements, which may not exceed that of a file.
    fn size_after(&self, n_bytes: usize, n: usize, edit: &Edit) -> Result<usize, Refusal> {
        // `n` texts do not overlap, so they are no longer than the whole.
        let kept = n_bytes - n * edit.old.len();
        let size = n.checked_mul(edit.new.len()).and_then(|added| kept.checked_add(added));
        size.filter(|size| *size as u64 <= self.file_bytes_max).ok_or_else(|| {
            let max = self.file_bytes_max;
            let why = format!("makes the file larger than {max} bytes, with {n} replacements");
            Refusal::OverLimit { why, hint: "replace less, or by less" }
        })
    }
}

/// Reason not to apply an edit, and the way out.
#[derive(Debug)]
enum Refusal {
    /// The text to replace is not there, or not once.
    Mismatch { why: String, hint: &'static str },
    /// The result or the work exceeds a limit.
    OverLimit { why: String, hint: &'static str },
}

impl Refusal {
    fn over_limit(why: String) -> Self {
        Self::OverLimit { why, hint: "make fewer edits in one call, or write the whole file" }
    }
}

/// Applies one edit and returns the number of replacements. Allocates nothing before the size of the result is known
/// to be allowed.
fn apply(text: &mut String, edit: &Edit, budget: &mut EditBudget) -> Result<usize, Refusal> {
    if edit.old.is_empty() {
        return Err(Refusal::Mismatch {
            why: "has an empty `old`".to_owned(),
            hint: "name the text to replace; to add some, repeat a line beside it",
        });
    }
    budget.take(text.len())?;
    let cut: String = edit.old.chars().take(SHOWN_CHARS).collect();
    let mut n = 0;
    each_match(text, &edit.old, budget, |_| n += 1)?;
    match n {
        0 => {
            let hint = if single_spaced(text).contains(&single_spaced(&edit.old)) {
                "the file has it with other spaces or line ends: read it, and repeat it exactly"
            } else {
                "read the file: it may have changed"
            };
            let why = format!("names a text that is not there: {cut:?}");
            return Err(Refusal::Mismatch { why, hint });
        }
        n if n > 1 && !edit.all => {
            return Err(Refusal::Mismatch {
                why: format!("names a text that is there {n} times: {cut:?}"),
                hint: "add lines around it until there is one, or pass `all`",
            });
        }
        _ => {}
    }
    let mut edited = String::with_capacity(budget.size_after(text.len(), n, edit)?);
    let mut copied = 0;
    each_match(text, &edit.old, budget, |at| {
        edited.push_str(&text[copied..at]);
        edited.push_str(&edit.new);
        copied = at + edit.old.len();
    })?;
    edited.push_str(&text[copied..]);
    *text = edited;
    Ok(n)
}

/// Calls `each` with the place of every match, until the deadline.
fn each_match(
    text: &str,
    old: &str,
    budget: &EditBudget,
    mut each: impl FnMut(usize),
) -> Result<(), Refusal> {
    for (n, (at, _)) in text.match_indices(old).enumerate() {
        if n % MATCHES_PER_CHECK == MATCHES_PER_CHECK - 1 {
            budget.check_deadline()?;
        }
        each(at);
    }
    Ok(())
}

/// Joins the words of a text by single spaces. The result is no longer than the text.
fn single_spaced(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileRules;

    fn edit(old: &str, new: &str, all: bool) -> Edit {
        Edit { old: old.into(), new: new.into(), all }
    }

    #[test]
    fn edits_apply_in_order_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let files = Workspace::open(dir.path(), FileRules::default()).unwrap();
        let path = dir.path().join("a.py");
        std::fs::write(&path, "x = 1\r\ny = 1\r\nz = x\n").unwrap();
        let (_, n) =
            files.edit("a.py", &[edit("x = 1", "x = 2", false), edit("= 1", "= 3", true)]).unwrap();
        assert_eq!(n, 2);
        let now = "x = 2\r\ny = 3\r\nz = x\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), now);
        for (edits, words) in [
            (
                vec![edit("z", "q", false), edit("gone", "x", false)],
                "edit 2 names a text that is not there",
            ),
            (vec![edit("= ", "=", false)], "3 times"),
            (vec![edit("", "x", false)], "empty"),
            (vec![], "0 edits"),
        ] {
            let problem = files.edit("a.py", &edits).unwrap_err();
            assert!(problem.to_string().contains(words), "{problem}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), now, "a part was written");
        }
        let spaces = files.edit("a.py", &[edit("x = 2\ny = 3", "", false)]).unwrap_err();
        assert!(spaces.to_string().contains("line ends"), "{spaces}");
        std::fs::write(dir.path().join("b"), [0u8, 1, 2]).unwrap();
        assert_eq!(
            files.edit("b", &[edit("a", "b", false)]).unwrap_err().code.as_str(),
            "not_text"
        );
        assert_eq!(
            files.edit("../x", &[edit("a", "b", false)]).unwrap_err().code.as_str(),
            "path_outside"
        );
        assert_eq!(
            files.edit(".env", &[edit("a", "b", false)]).unwrap_err().code.as_str(),
            "path_forbidden"
        );
        assert_eq!(
            files.edit("none", &[edit("a", "b", false)]).unwrap_err().code.as_str(),
            "not_found"
        );
    }

    fn budget() -> EditBudget {
        EditBudget {
            file_bytes_max: 1 << 20,
            searched_bytes_left: SEARCHED_BYTES_MAX,
            deadline: Instant::now() + DURATION_MAX,
        }
    }

    #[test]
    fn edits_that_grow_a_file_past_its_limit_are_refused_before_they_are_applied() {
        let dir = tempfile::tempdir().unwrap();
        let rules = FileRules { file_bytes_max: 1 << 20, ..FileRules::default() };
        let files = Workspace::open(dir.path(), rules).unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "a").unwrap();
        let (written, _) = files.edit("a", &vec![edit("a", "aa", true); 10]).unwrap();
        assert_eq!(written.total_bytes, 1 << 10);
        let long = "a".repeat(1 << 19);
        // 2^1010 bytes, 2^48 bytes, and one byte more than the limit.
        let one_more = [edit("a", &"a".repeat(1 << 10), true), edit("aa", "aaa", false)];
        let grown = [
            vec![edit("a", "aa", true); EDITS_MAX],
            vec![edit("a", &long, true); 2],
            vec![edit("a", &"a".repeat((1 << 10) + 1), true)],
            vec![
                one_more[0].clone(),
                edit(&"a".repeat(1 << 20), &"b".repeat((1 << 20) + 1), false),
            ],
        ];
        for edits in grown {
            let began = Instant::now();
            let problem = files.edit("a", &edits).unwrap_err();
            assert_eq!(problem.code.as_str(), "too_large", "{problem}");
            assert!(problem.to_string().contains("larger than 1048576 bytes"), "{problem}");
            assert!(began.elapsed() < DURATION_MAX, "{:?}", began.elapsed());
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 10, "a part was written");
        }
        // As large as a file may be.
        assert_eq!(files.edit("a", &one_more[..1]).unwrap().0.total_bytes, 1 << 20);
    }

    #[test]
    fn the_size_of_a_result_does_not_overflow() {
        let (budget, doubled) = (budget(), edit("a", &"b".repeat(1 << 20), true));
        for n in [2, usize::MAX >> 20, usize::MAX] {
            assert!(budget.size_after(n, n, &doubled).is_err(), "{n}");
        }
        assert_eq!(budget.size_after(10, 5, &edit("ab", "", true)).unwrap(), 0);
        assert_eq!(budget.size_after(10, 2, &edit("ab", "abc", true)).unwrap(), 12);
    }

    #[test]
    fn the_edits_of_a_call_have_a_budget_and_a_deadline() {
        let said = |refused: Result<usize, Refusal>| match refused {
            Err(Refusal::OverLimit { why, .. }) => why,
            other => format!("{other:?}"),
        };
        let mut text = "a".repeat(1000);
        let mut small = EditBudget { searched_bytes_left: 2500, ..budget() };
        for _ in 0..2 {
            apply(&mut text, &edit("a", "a", true), &mut small).unwrap();
        }
        let why = said(apply(&mut text, &edit("a", "b", true), &mut small));
        assert!(why.contains("more than 2048 MiB"), "{why}");
        let mut late = EditBudget { deadline: Instant::now(), ..budget() };
        let why = said(apply(&mut text, &edit("a", "b", true), &mut late));
        assert!(why.contains("not done 10 s after"), "{why}");
        assert_eq!(text, "a".repeat(1000));
        // The deadline ends a search too, not only the step to the next edit.
        let many = "a".repeat(2 * MATCHES_PER_CHECK);
        let mut n = 0;
        each_match(&many, "a", &late, |_| n += 1).unwrap_err();
        assert!(n < MATCHES_PER_CHECK, "{n}");
    }

    #[test]
    fn replacements_are_those_of_the_standard_library() {
        let text = "aaaa b aé日aa\n";
        for (old, new) in [("aa", "b"), ("a", "aa"), ("é", ""), ("日", "日本"), ("\n", "\r\n")]
        {
            let mut edited = text.to_owned();
            let n = apply(&mut edited, &edit(old, new, true), &mut budget()).unwrap();
            assert_eq!((edited, n), (text.replace(old, new), text.matches(old).count()), "{old}");
        }
    }
}
