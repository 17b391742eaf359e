//! Writes a text that a regular expression matches, and reads the literal that every match begins with.

use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::parse;

use crate::random::Random;

/// Repetitions without an upper bound end this many above the lower one.
const REPEAT_MORE_MAX: u32 = 8;

/// A text that matches, drawn at random. `None` for syntax that the parser refuses.
pub(crate) fn sample(pattern: &str, random: &mut Random) -> Option<String> {
    let mut out = Vec::new();
    write(&parse(pattern).ok()?, random, &mut out);
    String::from_utf8(out).ok()
}

fn write(hir: &Hir, random: &mut Random, out: &mut Vec<u8>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.extend_from_slice(&literal.0),
        HirKind::Class(class) => write_class(class, random, out),
        HirKind::Repetition(repetition) => {
            let max = repetition.max.unwrap_or(repetition.min + REPEAT_MORE_MAX);
            let more = random.below((max - repetition.min) as usize + 1);
            for _ in 0..repetition.min as usize + more {
                write(&repetition.sub, random, out);
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, random, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, random, out)),
        HirKind::Alternation(parts) => write(&parts[random.below(parts.len())], random, out),
    }
}

/// One printable ASCII character of the class.
fn write_class(class: &Class, random: &mut Random, out: &mut Vec<u8>) {
    let has = |byte: u8| match class {
        Class::Unicode(class) => {
            class.iter().any(|r| (r.start()..=r.end()).contains(&char::from(byte)))
        }
        Class::Bytes(class) => class.iter().any(|r| (r.start()..=r.end()).contains(&byte)),
    };
    let members: Vec<u8> = (b' '..=b'~').filter(|byte| has(*byte)).collect();
    if !members.is_empty() {
        out.push(random.one_of(&members));
    }
}

/// Returns true if every secret begins with a literal of at least `n_min` characters. The secret is the first group of
/// the pattern, or all of it.
pub(crate) fn has_fixed_prefix(pattern: &str, n_min: usize) -> bool {
    parse(pattern).is_ok_and(|hir| fixed(first_group(&hir).unwrap_or(&hir)).0 >= n_min)
}

fn first_group(hir: &Hir) -> Option<&Hir> {
    match hir.kind() {
        HirKind::Capture(capture) => Some(&capture.sub),
        HirKind::Repetition(repetition) => first_group(&repetition.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().find_map(first_group),
        _ => None,
    }
}

/// Fewest literal characters at the start of every match, and whether the whole of it is literal.
fn fixed(hir: &Hir) -> (usize, bool) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => (0, true),
        HirKind::Literal(literal) => (literal.0.len(), true),
        // A letter in either case, or one of a few: as good as a literal.
        HirKind::Class(class) => {
            let n = match class {
                Class::Unicode(c) => {
                    c.iter().map(|r| r.end() as usize - r.start() as usize + 1).sum()
                }
                Class::Bytes(c) => {
                    c.iter().map(|r| usize::from(r.end() - r.start()) + 1).sum::<usize>()
                }
            };
            if n <= 5 { (1, true) } else { (0, false) }
        }
        HirKind::Repetition(repetition) => {
            let (n, whole) = fixed(&repetition.sub);
            let exact = repetition.max == Some(repetition.min);
            (n * repetition.min as usize, whole && exact)
        }
        HirKind::Capture(capture) => fixed(&capture.sub),
        HirKind::Concat(parts) => {
            let mut n = 0;
            for part in parts {
                let (more, whole) = fixed(part);
                n += more;
                if !whole {
                    return (n, false);
                }
            }
            (n, true)
        }
        HirKind::Alternation(parts) => {
            let each: Vec<_> = parts.iter().map(fixed).collect();
            (each.iter().map(|(n, _)| *n).min().unwrap_or(0), each.iter().all(|(_, whole)| *whole))
        }
    }
}
