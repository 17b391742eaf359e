//! Quotes a text as one word of a shell's command line, for hints that are copied into one.

use std::borrow::Cow;

/// Returns a text as one word for a POSIX shell, in quotation marks only where it needs them.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_that_needs_them_has_quotation_marks() {
        for (text, word) in [
            ("/srv/a-b_c/é.txt", "/srv/a-b_c/é.txt"),
            ("src:dst", "src:dst"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
            ("~/x", "'~/x'"),
            ("*.rs", "'*.rs'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
