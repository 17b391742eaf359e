//! Edits a text with uniform line endings and without a byte order mark; restores both in every unchanged line. Pure.

use similar::{ChangeTag, TextDiff};

const MARK: char = '\u{feff}';

/// Returns the text without its byte order mark.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Edits a text. New lines end as most of the old ones do.
pub(super) fn edit_keeping_line_endings(
    text: &str,
    edit: impl FnOnce(&str) -> Result<String, String>,
) -> Result<String, String> {
    let body = without_mark(text);
    let plain = body.replace("\r\n", "\n");
    let edited = edit(&plain)?;
    let mut whole = String::with_capacity(edited.len() + text.len() - plain.len());
    if body.len() < text.len() {
        whole.push(MARK);
    }
    if plain.len() == body.len() {
        whole.push_str(&edited);
        return Ok(whole);
    }
    let before: Vec<&str> = body.split_inclusive('\n').collect();
    let n_two = body.len() - plain.len();
    let end = if n_two * 2 >= before.len() { "\r\n" } else { "\n" };
    let lines = [&plain, &edited].map(|text| text.split_inclusive('\n').collect::<Vec<&str>>());
    for change in TextDiff::from_slices(&lines[0], &lines[1]).iter_all_changes() {
        match (change.tag(), change.old_index().and_then(|n| before.get(n))) {
            (ChangeTag::Delete, _) => {}
            (ChangeTag::Equal, Some(line)) => whole.push_str(line),
            (ChangeTag::Equal | ChangeTag::Insert, _) => match change.value().strip_suffix('\n') {
                Some(line) => whole.extend([line, end]),
                None => whole.push_str(change.value()),
            },
        }
    }
    Ok(whole)
}
