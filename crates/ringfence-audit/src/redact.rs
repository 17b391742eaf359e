//! Redacts before anything is written: the ledger calls the caller's redactor on every text it stores.

use std::borrow::Cow;

/// Removes secrets from a text.
pub trait Redactor: Send + Sync {
    /// The text without its secrets.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}

impl<F> Redactor for F
where
    F: for<'a> Fn(&'a str) -> Cow<'a, str> + Send + Sync,
{
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self(text)
    }
}

/// Keeps texts unchanged, for tests and for callers whose texts hold no secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAll;

impl Redactor for KeepAll {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(text)
    }
}

/// Characters past the cut that the redactor sees, so that a secret across the cut is seen whole: more than the longest
/// private key in PEM that is in use (RSA 8192, 6.4 kB).
const BEYOND_CHARS: usize = 8192;

/// Redacts, then cuts to `chars_max` characters: the redactor must see a secret whole that the cut would halve.
pub(crate) fn redact_and_cut(redactor: &dyn Redactor, text: &str, chars_max: usize) -> String {
    let window = first_chars(text, chars_max + BEYOND_CHARS);
    let clean = redactor.redact(window);
    first_chars(&clean, chars_max).to_owned()
}

/// The first `n` characters.
pub(crate) fn first_chars(text: &str, n: usize) -> &str {
    // Every character has at least one byte.
    if text.len() <= n {
        return text;
    }
    text.char_indices().nth(n).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stars(text: &str) -> Cow<'_, str> {
        Cow::Owned(text.replace("hunter2", "***"))
    }

    #[test]
    fn a_secret_across_the_cut_is_seen_whole() {
        let text = format!("{}hunter2", "x".repeat(997));
        let cut = redact_and_cut(&stars, &text, 1000);
        assert_eq!(cut, format!("{}***", "x".repeat(997)));
    }

    #[test]
    fn a_cut_never_halves_a_character() {
        assert_eq!(redact_and_cut(&KeepAll, "äöü", 2), "äö");
        assert_eq!(first_chars("äöü", 9), "äöü");
    }
}
