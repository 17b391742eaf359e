//! Changes parts of a text file: each edit names the text that is there and the text that replaces it. All of them are
//! applied, or none.

use std::ffi::OsStr;

use ringfence_spec::{Code, Problem};
use serde::Deserialize;

use super::path::GuestPath;
use super::{ContentKind, Precondition, Workspace, WriteOptions, WrittenFile, problems};

/// Edits of one call.
const EDITS_MAX: usize = 1000;

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
        let mut n_replaced = 0;
        for (n, edit) in edits.iter().enumerate() {
            n_replaced += apply(&mut text, edit).map_err(|(why, hint)| {
                let message = format!("cannot edit `{shown}`: edit {} {why}", n + 1);
                Problem::usage(Code::EditMismatch, message).hint(hint)
            })?;
        }
        let written = self.write_if(path, text.as_bytes(), WriteOptions::default(), when)?;
        Ok((written, n_replaced))
    }
}

/// Applies one edit and returns the number of replacements, or the reason and the way out.
fn apply(text: &mut String, edit: &Edit) -> Result<usize, (String, &'static str)> {
    if edit.old.is_empty() {
        return Err((
            "has an empty `old`".to_owned(),
            "name the text to replace; to add some, repeat a line beside it",
        ));
    }
    let cut: String = edit.old.chars().take(SHOWN_CHARS).collect();
    match text.matches(&edit.old).count() {
        0 => {
            let loose = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let hint = if loose(text).contains(&loose(&edit.old)) {
                "the file has it with other spaces or line ends: read it, and repeat it exactly"
            } else {
                "read the file: it may have changed"
            };
            Err((format!("names a text that is not there: {cut:?}"), hint))
        }
        n if n > 1 && !edit.all => Err((
            format!("names a text that is there {n} times: {cut:?}"),
            "add lines around it until there is one, or pass `all`",
        )),
        n => {
            *text = text.replace(&edit.old, &edit.new);
            Ok(n)
        }
    }
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
}
