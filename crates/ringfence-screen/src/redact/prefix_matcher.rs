//! Finds the prefixes of all rules in a text, in any case.
//!
//! An automaton reads a long text fastest. Building it takes a millisecond, a quarter of a short command's start, so the first
//! [`COMPARED_BYTES_MAX`] bytes of a process are searched without it, by comparing the prefixes that share a first byte.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind};

use super::rules::{self, SecretRule};

/// Number of bytes of text that a process searches before it builds the automaton: as many as are searched in the time that
/// building takes.
const COMPARED_BYTES_MAX: usize = 8 * 1024;

/// A prefix found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Index of its rule.
    pub(super) rule: usize,
    /// Index among the prefixes of its rule.
    pub(super) place: usize,
}

/// Every rule, in the order of the table.
pub(super) static RULES: LazyLock<Vec<&'static SecretRule>> =
    LazyLock::new(|| rules::all().collect());

static PREFIXES: LazyLock<Prefixes> = LazyLock::new(Prefixes::new);

static AUTOMATON: OnceLock<AhoCorasick> = OnceLock::new();

/// Bytes searched without the automaton.
static COMPARED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Calls `see` for every occurrence of every prefix, by end, then by start.
pub(super) fn find(text: &[u8], see: impl FnMut(Occurrence)) {
    let automaton = AUTOMATON.get();
    if automaton.is_none() && text.len() <= COMPARED_BYTES_MAX {
        let compared = COMPARED_BYTES.fetch_add(text.len(), Ordering::Relaxed);
        if compared.saturating_add(text.len()) <= COMPARED_BYTES_MAX {
            return PREFIXES.compare(text).into_iter().for_each(see);
        }
    }
    let automaton = automaton.unwrap_or_else(|| AUTOMATON.get_or_init(|| PREFIXES.automaton()));
    PREFIXES.search(automaton, text).for_each(see);
}

/// A prefix and the rule it belongs to.
struct Prefix {
    text: &'static str,
    rule: usize,
    place: usize,
}

struct Prefixes {
    all: Vec<Prefix>,
    /// Indexes into `all`, grouped by first byte in lower case.
    grouped: Vec<usize>,
    /// End of the group of each byte. It starts where the group before it ends.
    group_ends: [usize; 256],
}

impl Prefixes {
    fn new() -> Self {
        let mut all = Vec::new();
        for (rule, of) in RULES.iter().enumerate() {
            let places = of.prefixes.iter().enumerate();
            all.extend(places.map(|(place, text)| Prefix { text, rule, place }));
        }
        let mut group_ends = [0; 256];
        for prefix in &all {
            group_ends[prefix.first()] += 1;
        }
        let mut end = 0;
        for group in &mut group_ends {
            end += *group;
            *group = end;
        }
        let mut next = group_ends;
        let mut grouped = vec![0; all.len()];
        for (index, prefix) in all.iter().enumerate().rev() {
            next[prefix.first()] -= 1;
            grouped[next[prefix.first()]] = index;
        }
        Self { all, grouped, group_ends }
    }

    fn automaton(&self) -> AhoCorasick {
        AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            // The kind that is built fastest.
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            // Deeper costs time to make, none costs a list to walk for every byte of text.
            .dense_depth(1)
            .prefilter(false)
            .build(self.all.iter().map(|prefix| prefix.text))
            .expect("a few hundred short literals")
    }

    fn search<'t>(
        &'t self,
        automaton: &'t AhoCorasick,
        text: &'t [u8],
    ) -> impl Iterator<Item = Occurrence> + 't {
        automaton.find_overlapping_iter(text).map(|hit| {
            let Prefix { rule, place, .. } = self.all[hit.pattern().as_usize()];
            Occurrence { start: hit.start(), end: hit.end(), rule, place }
        })
    }

    fn compare(&self, text: &[u8]) -> Vec<Occurrence> {
        let mut found = Vec::new();
        for (start, byte) in text.iter().enumerate() {
            let group = usize::from(byte.to_ascii_lowercase());
            let group_start = group.checked_sub(1).map_or(0, |before| self.group_ends[before]);
            for index in &self.grouped[group_start..self.group_ends[group]] {
                let Prefix { text: prefix, rule, place } = self.all[*index];
                let end = start + prefix.len();
                if text.get(start..end).is_some_and(|t| t.eq_ignore_ascii_case(prefix.as_bytes())) {
                    found.push(Occurrence { start, end, rule, place });
                }
            }
        }
        // Stable, so that equal prefixes stay in the order of the table.
        found.sort_by_key(|occurrence| (occurrence.end, occurrence.start));
        found
    }
}

impl Prefix {
    fn first(&self) -> usize {
        self.text.bytes().next().map_or(0, |byte| usize::from(byte.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &[u8]) -> (Vec<Occurrence>, Vec<Occurrence>) {
        static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| PREFIXES.automaton());
        (PREFIXES.compare(text), PREFIXES.search(&AUTOMATON, text).collect())
    }

    #[test]
    fn no_prefix_is_empty() {
        assert!(PREFIXES.all.iter().all(|prefix| !prefix.text.is_empty()));
    }

    #[test]
    fn comparing_finds_what_the_automaton_finds_in_the_same_order() {
        let mut texts: Vec<String> = Vec::new();
        let all: Vec<&str> = PREFIXES.all.iter().map(|prefix| prefix.text).collect();
        // Every prefix alone, in capitals, cut short, and each pair of neighbours, overlapping by a byte.
        for (index, prefix) in all.iter().enumerate() {
            let cut = prefix.char_indices().last().map_or(0, |(at, _)| at);
            let next = all[(index + 7) % all.len()];
            texts.push((*prefix).to_owned());
            texts.push(prefix.to_ascii_uppercase());
            texts.push(format!("x{}", &prefix[..cut]));
            texts.push(format!("{}{next} {prefix}", &prefix[..cut]));
        }
        texts.push(all.concat());
        texts.push(all.join("\n").to_ascii_uppercase());
        let mut n_found = 0;
        for text in texts {
            let (compared, searched) = both(text.as_bytes());
            assert_eq!(compared, searched, "{text}");
            n_found += compared.len();
        }
        assert!(n_found > 4 * all.len(), "{n_found}");
    }
}
