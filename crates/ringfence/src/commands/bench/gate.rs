//! The promises of SPECIFICATION.md, compared with what was measured.

use std::fmt::Write as _;

use super::{Comparison, Contender};

const SPECIFICATION: &str = include_str!("../../../../../SPECIFICATION.md");

/// Name of our own contender.
const OURS: &str = "ringfence";

/// One row of a table with the header `bench row`.
#[derive(Debug, PartialEq)]
struct Promise<'a> {
    row: &'a str,
    bound: Bound,
    text: &'a str,
    condition: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// Ratio to the baseline, at most.
    Ratio(f64),
    /// Median in milliseconds, at most.
    P50(f64),
    /// 99th percentile in milliseconds, at most.
    P99(f64),
    /// Minimum speed, in times of a peer's.
    Faster(f64),
    /// Programs a second, at least.
    PerSecond(f64),
    /// Not in the report's numbers.
    Unmeasured,
}

/// Result of comparing one promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Yes,
    No,
    NotMeasured,
}

/// Compares every promise with the report. Returns the lines to print, and true if none is broken.
pub(super) fn gate(comparisons: &[Comparison]) -> (String, bool) {
    let (mut text, mut all_held) = (String::new(), true);
    for promise in promises(SPECIFICATION) {
        let (held, measured) = compare(&promise, comparisons);
        all_held &= held != Held::No;
        let word = match held {
            Held::Yes => "held",
            Held::No => "BROKEN",
            Held::NotMeasured => "not measured",
        };
        let measured = measured.map_or_else(String::new, |value| format!(", measured {value:.3}"));
        let Promise { row, text: promised, condition, .. } = promise;
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{word:12} {row}: {promised}{measured} ({condition})");
    }
    (text, all_held)
}

fn promises(specification: &str) -> impl Iterator<Item = Promise<'_>> {
    let mut in_table = false;
    specification.lines().filter_map(move |line| {
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            in_table &= line.starts_with('|');
            return None;
        };
        let mut cells = cells.split(" | ");
        let (row, text, condition) = (cells.next()?, cells.next()?, cells.next()?);
        if row == "bench row" {
            in_table = true;
            return None;
        }
        let row = row.strip_prefix('`')?.strip_suffix('`')?;
        in_table.then(|| Promise { row, bound: bound(text), text, condition })
    })
}

fn bound(text: &str) -> Bound {
    let number = text.split(' ').find_map(|word| word.parse().ok()).unwrap_or(f64::NAN);
    match text {
        _ if text.starts_with("ratio at most") => Bound::Ratio(number),
        _ if text.starts_with("p50 at most") => Bound::P50(number),
        _ if text.starts_with("p99 at most") => Bound::P99(number),
        _ if text.ends_with("times faster") => Bound::Faster(number),
        _ if text.ends_with("programs a second") => Bound::PerSecond(number),
        _ if text.ends_with("of the speed") => Bound::Ratio(1.0 / number),
        _ => Bound::Unmeasured,
    }
}

fn compare(promise: &Promise<'_>, comparisons: &[Comparison]) -> (Held, Option<f64>) {
    let Some(row) = comparisons.iter().find(|c| c.name == promise.row) else {
        return (Held::NotMeasured, None);
    };
    // A contender that the condition names: a peer, or a part of our own time.
    let named =
        |c: &&Contender| c.name != OURS && promise.condition.contains(&format!("`{}`", c.name));
    let named = row.contenders.iter().find(named);
    // A peer that is not installed: the ratio would be to something else.
    let peer =
        promise.condition.split_once("against `").and_then(|(_, rest)| rest.split('`').next());
    if peer.is_some_and(|peer| !row.contenders.iter().any(|c| c.name == peer)) {
        return (Held::NotMeasured, None);
    }
    let Some(ours) = row.contenders.iter().find(|c| c.name == OURS) else {
        return (Held::NotMeasured, None);
    };
    let at_most =
        |value: f64, max: f64| (if value <= max { Held::Yes } else { Held::No }, Some(value));
    let at_least =
        |value: f64, min: f64| (if value >= min { Held::Yes } else { Held::No }, Some(value));
    match promise.bound {
        Bound::Ratio(max) => at_most(ours.ratio, max),
        Bound::P50(max) => at_most(named.unwrap_or(ours).p50_ms, max),
        Bound::P99(max) => at_most(ours.p99_ms, max),
        Bound::Faster(min) => match named {
            Some(peer) => at_least(peer.p50_ms / ours.p50_ms, min),
            None => (Held::NotMeasured, None),
        },
        Bound::PerSecond(min) => at_least(1000.0 / ours.p50_ms, min),
        Bound::Unmeasured => (Held::NotMeasured, None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    fn row(name: &'static str, contenders: &[(&str, f64, f64)]) -> Comparison {
        let contenders = contenders.iter().map(|(name, p50_ms, ratio)| Contender {
            name: (*name).to_owned(),
            p50_ms: *p50_ms,
            p99_ms: 2.0 * p50_ms,
            ratio: *ratio,
        });
        let contenders = contenders.collect();
        Comparison { name, what: String::new(), rounds: 1, unit: Unit::Run, contenders }
    }

    #[test]
    fn every_promise_of_the_specification_is_read() {
        let promises: Vec<_> = promises(SPECIFICATION).collect();
        assert!(promises.len() >= 20, "{promises:#?}");
        let unread = promises.iter().filter(|p| p.bound == Bound::Unmeasured);
        for promise in unread {
            let known = promise.text.contains("MB") || promise.row == "large_workspace";
            assert!(known, "{promise:?}");
        }
    }

    #[test]
    fn a_promise_about_a_missing_peer_is_not_judged() {
        for row in [
            row("start", &[("ringfence", 4.0, 3.0), ("plain", 1.3, 1.0)]),
            row("python_cold", &[("ringfence", 20.0, 1.0)]),
        ] {
            let (text, held) = gate(std::slice::from_ref(&row));
            let line = text.lines().find(|line| line.contains(&format!(" {}: ratio", row.name)));
            assert!(held && line.is_some_and(|line| line.starts_with("not measured")), "{text}");
        }
    }

    #[test]
    fn a_broken_promise_is_found() {
        let good = row("start", &[("ringfence", 4.0, 0.9), ("bwrap", 4.4, 1.0)]);
        assert!(gate(std::slice::from_ref(&good)).1);
        let bad = row("start", &[("ringfence", 5.0, 1.2), ("bwrap", 4.4, 1.0)]);
        let (text, held) = gate(&[bad]);
        assert!(
            !held && text.contains("BROKEN       start: ratio at most 1.00, measured 1.200"),
            "{text}"
        );
        let slow = row(
            "python_warm",
            &[("ringfence", 0.9, 0.1), ("first byte", 0.7, 0.1), ("bwrap+python", 15.0, 1.0)],
        );
        let (text, held) = gate(&[slow]);
        let n_broken = text.matches("BROKEN").count();
        // The first byte takes longer than half a millisecond, and 16 times faster is not 20 times.
        assert!(!held && n_broken == 2, "{text}");
    }
}
