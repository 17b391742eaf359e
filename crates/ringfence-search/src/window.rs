//! A part of a line, around what was found in it: a line may be a whole file of minified code.

use std::ops::Range;

/// As much of `line` as `chars_max` allows, around `at`, and `…` where something was left out.
pub(crate) fn around(line: &str, at: &Range<usize>, chars_max: usize) -> String {
    if line.chars().nth(chars_max).is_none() {
        return line.to_owned();
    }
    let found = line.get(at.clone()).unwrap_or_default();
    let room = chars_max.saturating_sub(found.chars().count());
    let (before, after) = (&line[..at.start], &line[at.start..]);
    // A third before it: what follows tells more, mostly.
    let n_before = before.chars().count().min(room / 3);
    let start = n_before
        .checked_sub(1)
        .map_or(at.start, |n| before.char_indices().rev().nth(n).map_or(0, |(index, _)| index));
    let n_after = chars_max.saturating_sub(n_before);
    let end = after.char_indices().nth(n_after).map_or(line.len(), |(index, _)| at.start + index);
    let dots = |cut: bool| if cut { "…" } else { "" };
    format!("{}{}{}", dots(start > 0), &line[start..end], dots(end < line.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_line_is_whole_and_of_a_long_one_the_found_part_is_kept() {
        assert_eq!(around("abc", &(1..2), 10), "abc");
        let line = format!("{}needle{}", "x".repeat(500), "y".repeat(500));
        let window = around(&line, &(500..506), 20);
        assert_eq!(window, "…xxxxneedleyyyyyyyyyy…");
        assert_eq!(around(&line, &(0..1000), 5), "xxxxx…");
    }

    proptest! {
        #[test]
        fn a_window_is_bounded_and_a_part_of_its_line(line in "\\PC{0,80}", start in 0usize..80, len in 0usize..20, max in 1usize..40) {
            let at = |n: usize| line.char_indices().nth(n).map_or(line.len(), |(i, _)| i);
            let window = around(&line, &(at(start)..at(start + len)), max);
            prop_assert!(window.chars().count() <= max + 2);
            prop_assert!(line.contains(window.trim_start_matches('…').trim_end_matches('…')) || line.contains('…'));
        }
    }
}
