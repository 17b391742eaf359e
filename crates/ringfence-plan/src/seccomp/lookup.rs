//! Maps each system call number to its group in `rules`, computed at compile time.
//!
//! Matching some 370 names against each other takes longer than the whole rest of compiling a filter, and its result
//! never changes.

use super::rules::GROUPS;
use super::{Arch, table};

/// No group has this index: [`GROUPS`] is shorter, or the constants below do not build.
const NONE: u8 = u8::MAX;

static X86_64: [u8; n_numbers(Arch::X86_64)] = by_number(Arch::X86_64);
static AARCH64: [u8; n_numbers(Arch::Aarch64)] = by_number(Arch::Aarch64);

/// For each number, the index of its call's group in [`GROUPS`]; an index past the end for a number that is not a call,
/// or is in no group.
pub(super) fn groups_by_number(arch: Arch) -> &'static [u8] {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

// The functions below are const, where neither iterators nor `==` of strings are available.

const fn n_numbers(arch: Arch) -> usize {
    match table::calls(arch).last() {
        Some(last) => last.0 as usize + 1,
        None => 0,
    }
}

const fn by_number<const N: usize>(arch: Arch) -> [u8; N] {
    let calls = table::calls(arch);
    let mut groups = [NONE; N];
    let mut group: u8 = 0;
    while (group as usize) < GROUPS.len() {
        assert!(group < NONE, "an index is a byte");
        let mut names = GROUPS[group as usize].calls.as_bytes();
        while !names.is_empty() {
            let (name, rest) = split_at_space(names);
            let mut at = 0;
            while at < calls.len() {
                let (nr, call) = calls[at];
                if same(name, call.as_bytes()) {
                    groups[nr as usize] = group;
                }
                at += 1;
            }
            names = rest;
        }
        group += 1;
    }
    groups
}

const fn split_at_space(names: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    while end < names.len() {
        if names[end] == b' ' {
            let (name, rest) = names.split_at(end);
            return (name, rest.split_at(1).1);
        }
        end += 1;
    }
    (names, &[])
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // Names differ more often at their end than at their start.
    let mut n = a.len();
    while n > 0 {
        n -= 1;
        if a[n] != b[n] {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_looked_up_in_the_group_that_names_its_call() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            for (nr, &group) in (0..).zip(groups_by_number(arch)) {
                let group = GROUPS.get(usize::from(group));
                let named = |call| group.is_some_and(|g| g.calls.split(' ').any(|c| c == call));
                match table::name(arch, nr) {
                    Some(call) => assert!(named(call), "{arch:?} {nr} {call}"),
                    None => assert!(group.is_none(), "{arch:?} {nr}"),
                }
            }
            let n_numbers = groups_by_number(arch).len();
            assert!(table::calls(arch).iter().all(|&(nr, _)| (nr as usize) < n_numbers));
        }
    }
}
