//! Shortens results to fit a context window: keeps head and tail, and says what is missing. The resource store has the
//! rest.

use ringfence_engine::cut_character;
use ringfence_spec::{Encoding, Outcome};

/// Maximum characters of standard output.
pub(super) const STDOUT_CHARS_MAX: usize = 16_000;

/// Maximum characters of standard error, of a value, and of an exception's message.
pub(super) const OTHER_CHARS_MAX: usize = 4_000;

/// Maximum number of denials and of artifacts that are listed.
const LISTED_MAX: usize = 100;

/// Returns whether a text has to be cut.
pub(super) fn is_too_long(text: &str, chars_max: usize) -> bool {
    // There are at least as many bytes as characters, so most texts stop here.
    text.len() > chars_max && text.chars().count() > chars_max
}

/// Shortens an outcome. `truncated` counts what was dropped here as well as what the run's own limit dropped.
pub(super) fn outcome(outcome: &mut Outcome) {
    let encoding = outcome.encoding;
    let dropped = stream(&mut outcome.stdout, STDOUT_CHARS_MAX, encoding);
    outcome.truncated.stdout |= dropped > 0;
    outcome.truncated.dropped_bytes += dropped;
    let dropped = stream(&mut outcome.stderr, OTHER_CHARS_MAX, encoding);
    outcome.truncated.stderr |= dropped > 0;
    outcome.truncated.dropped_bytes += dropped;
    if let Some(value) = &mut outcome.value {
        text(value, OTHER_CHARS_MAX);
    }
    if let Some(exception) = &mut outcome.exception {
        text(&mut exception.message, OTHER_CHARS_MAX);
    }
    outcome.denials.truncate(LISTED_MAX);
    outcome.findings.truncate(LISTED_MAX);
    outcome.artifacts.truncate(LISTED_MAX);
}

fn stream(shown: &mut String, chars_max: usize, encoding: Encoding) -> u64 {
    match encoding {
        Encoding::Utf8 => text(shown, chars_max),
        // A gap in the middle would make the rest unreadable, so only the head is kept: whole groups of four
        // characters.
        Encoding::Base64 if shown.len() > chars_max => {
            let kept = chars_max / 4 * 4;
            let dropped = (shown.len() - kept) / 4 * 3;
            shown.truncate(kept);
            dropped as u64
        }
        Encoding::Base64 => 0,
    }
}

/// Leaves a character that is cut at the end of a part to the next part. A part that has nothing else stays as it is.
pub(super) fn leave_cut_character(part: &mut Vec<u8>) {
    let kept = part.len() - cut_character(part);
    if kept > 0 {
        part.truncate(kept);
    }
}

/// Cuts a text in the middle; returns the number of bytes dropped.
pub(super) fn text(shown: &mut String, chars_max: usize) -> u64 {
    if !is_too_long(shown, chars_max) {
        return 0;
    }
    // The end of a program's output matters more than its middle, and the beginning more than the end.
    let (n_head, n_tail) = (chars_max / 3 * 2, chars_max / 3);
    let head = shown.char_indices().nth(n_head).map_or(shown.len(), |(at, _)| at);
    let tail = shown.char_indices().nth_back(n_tail.saturating_sub(1)).map_or(0, |(at, _)| at);
    let dropped = tail - head;
    let cut = format!(
        "{}\n[… {dropped} bytes left out here; print less, or write it to a file and read that in parts …]\n{}",
        &shown[..head],
        &shown[tail..]
    );
    *shown = cut;
    dropped as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn head_and_tail_are_kept_and_the_gap_is_counted() {
        let mut shown = format!("begin{}end", "ä".repeat(1000));
        let whole = shown.len() as u64;
        let dropped = text(&mut shown, 300);
        assert!(shown.starts_with("beginää") && shown.ends_with("ääend"), "{shown}");
        assert!(shown.contains(&format!("{dropped} bytes left out")), "{shown}");
        assert!(dropped > whole / 2 && dropped < whole);
    }

    proptest! {
        #[test]
        fn no_text_is_cut_inside_a_character(shown in ".{0,400}", chars_max in 3usize..300) {
            let mut cut = shown.clone();
            let dropped = usize::try_from(text(&mut cut, chars_max)).unwrap();
            if dropped == 0 {
                prop_assert_eq!(cut, shown);
            } else {
                let (head, rest) = cut.split_once("\n[…").unwrap();
                let (_, tail) = rest.rsplit_once("…]\n").unwrap_or(("", ""));
                prop_assert!(shown.starts_with(head));
                prop_assert!(shown.ends_with(tail));
                prop_assert!(head.chars().count() + tail.chars().count() <= chars_max);
                prop_assert_eq!(head.len() + tail.len() + dropped, shown.len());
            }
        }

        #[test]
        fn cut_base64_can_still_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), chars_max in 4usize..100) {
            use base64::Engine as _;
            let mut shown = base64::engine::general_purpose::STANDARD.encode(&bytes);
            stream(&mut shown, chars_max, Encoding::Base64);
            let read = base64::engine::general_purpose::STANDARD.decode(&shown).unwrap();
            prop_assert!(bytes.starts_with(&read));
        }
    }
}
