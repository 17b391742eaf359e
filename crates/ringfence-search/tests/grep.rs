//! What a search finds, and where it stops.

#![allow(clippy::disallowed_methods)]

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_search::{Bounds, Cut, Found, Grep, Pattern, PatternStyle};

fn search(pattern: &str, bounds: Bounds, texts: &[(&str, &[u8])]) -> Found {
    let mut grep = Grep::new(Pattern::new(pattern, PatternStyle::default()).unwrap(), bounds);
    for (path, text) in texts {
        grep.text(path, *text);
    }
    grep.finish()
}

/// `path:line:column before|text|after` of each match.
fn shown(found: &Found) -> Vec<String> {
    let line = |m: &ringfence_search::Match| {
        let (before, after) = (m.before.join(","), m.after.join(","));
        format!("{}:{}:{} {before}|{}|{after}", m.path, m.line, m.column, m.text)
    };
    found.matches.iter().map(line).collect()
}

#[test]
fn lines_are_found_with_their_place() {
    let found = search(
        "b+",
        Bounds::default(),
        &[("x", b"a\r\nabb\r\ngr\xc3\xbcn b\n"), ("y", b"nothing")],
    );
    assert_eq!(shown(&found), ["x:2:2 |abb|", "x:3:6 |grün b|"]);
    assert_eq!((found.n_files, found.n_skipped, found.cut), (2, 0, None));
}

#[test]
fn context_belongs_to_its_match_also_when_matches_are_neighbours() {
    let bounds = Bounds { context_lines: 1, ..Bounds::default() };
    let found = search("m", bounds, &[("x", b"1\nm1\nm2\n4\n5\n6\nm3\n8\n")]);
    assert_eq!(shown(&found), ["x:2:1 1|m1|m2", "x:3:1 m1|m2|4", "x:7:1 6|m3|8"]);
}

#[test]
fn enough_is_said_only_when_there_is_more() {
    let bounds = Bounds { matches_max: 2, context_lines: 1, ..Bounds::default() };
    let found = search("m", bounds, &[("x", b"m1\nm2\nafter\n")]);
    assert_eq!((found.matches[1].after.join(","), found.cut), ("after".into(), None));
    let found = search("m", bounds, &[("x", b"m1\nm2\nafter\nm3\n"), ("y", b"m")]);
    assert_eq!((found.matches.len(), found.n_files, found.cut), (2, 1, Some(Cut::Matches)));
}

#[test]
fn what_is_no_text_is_searched_up_to_there() {
    let found = search("m", Bounds::default(), &[("x", b"m\nx\n\0m\n"), ("y", b"m\n")]);
    assert_eq!((found.n_files, found.n_skipped), (2, 1));
    assert!(shown(&found).contains(&"y:1:1 |m|".to_owned()), "{found:?}");
}

#[test]
fn a_line_without_end_is_given_up_and_the_next_text_searched() {
    let long = vec![b'a'; 12 << 20];
    let found = search("m", Bounds::default(), &[("x", &long), ("y", b"m\n")]);
    assert_eq!((found.n_skipped, shown(&found).len()), (1, 1));
}

#[test]
fn bytes_are_bounded_each_and_all_together() {
    let bounds = Bounds { text_bytes_max: 3, total_bytes_max: 4, ..Bounds::default() };
    let found = search("m", bounds, &[("x", b"aaam"), ("y", b"m"), ("z", b"m")]);
    assert_eq!((shown(&found), found.cut), (vec!["y:1:1 |m|".to_owned()], Some(Cut::Bytes)));
}

#[test]
fn a_text_that_never_ends_ends_with_the_time() {
    struct Endless;
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(b'\n');
            Ok(buffer.len())
        }
    }
    let bounds = Bounds {
        text_bytes_max: u64::MAX,
        total_bytes_max: u64::MAX,
        time_max: Duration::from_millis(200),
        ..Bounds::default()
    };
    let began = Instant::now();
    let mut grep = Grep::new(Pattern::new("m", PatternStyle::default()).unwrap(), bounds);
    grep.text("x", Endless);
    assert!(grep.is_over());
    assert_eq!(grep.finish().cut, Some(Cut::Time));
    assert!(began.elapsed() < Duration::from_mins(1));
}

#[test]
fn no_pattern_hangs() {
    // Each of these takes a backtracking matcher longer than the age of the universe.
    let text = format!("{}!\n", "a".repeat(100_000));
    for pattern in ["(a+)+$", "(a|a)*b", "(a?){50}a{50}$", "(.*)*x", "([a-z]+)*[0-9]"] {
        let began = Instant::now();
        search(pattern, Bounds::default(), &[("x", text.as_bytes())]);
        assert!(began.elapsed() < Duration::from_mins(1), "{pattern}");
    }
}

#[test]
fn a_pattern_that_is_slow_on_one_long_line_ends_with_its_time() {
    // No automaton remembers enough of this: whether the 300th character back was a 1, for every character.
    let line: Vec<u8> = (0_u64..900_000)
        .map(|n| b'0' + u8::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).count_ones() % 2 == 1))
        .collect();
    let bounds = Bounds { time_max: Duration::from_millis(500), ..Bounds::default() };
    for (pattern, text) in [
        ("(?:[01]*1[01]{300}){10}[^01]", line.clone()),
        (r"(?:\w*1\w{60})[^\w]", line.clone()),
        ("(?:[01]*1[01]{300}){10}[^01]", line.chunks(100).collect::<Vec<_>>().join(&b'\n')),
    ] {
        let began = Instant::now();
        let found = search(pattern, bounds, &[("x", &text), ("y", &text), ("z", &text)]);
        // Much of it for builds that are not optimized, as those of tests.
        assert!(began.elapsed() < Duration::from_mins(1), "{pattern}: {:?}", began.elapsed());
        assert_eq!(found.matches.len(), 0, "{pattern}");
    }
}

#[test]
fn of_a_long_line_the_beginning_is_searched_and_what_is_behind_it() {
    let long = format!("first\n{}late\nbehind\n", "early".repeat(100_000));
    for (pattern, found_in) in [("first", 1), ("early", 1), ("late", 0), ("behind", 1)] {
        let found = search(pattern, Bounds::default(), &[("x", long.as_bytes())]);
        assert_eq!((found.matches.len(), found.n_skipped), (found_in, 1), "{pattern}");
    }
    let found = search("behind", Bounds::default(), &[("x", long.as_bytes())]);
    assert_eq!(shown(&found), ["x:3:1 |behind|"]);
}

#[test]
fn nobody_who_has_gone_is_searched_for() {
    let stop = Arc::new(AtomicBool::new(false));
    let pattern = Pattern::new("m", PatternStyle::default()).unwrap();
    let mut grep = Grep::unless(pattern, Bounds::default(), Arc::clone(&stop));
    grep.text("x", &b"m\n"[..]);
    assert!(!grep.is_over());
    stop.store(true, Ordering::Relaxed);
    grep.text("y", &b"m\n"[..]);
    assert!(grep.is_over());
    assert_eq!(grep.finish().matches.len(), 1);
}

#[test]
fn letters_and_literals_are_as_asked() {
    for (style, pattern, n) in [
        (PatternStyle { ignore_case: true, ..PatternStyle::default() }, "STRASSE|ÄRGER", 2),
        (PatternStyle { literal: true, ..PatternStyle::default() }, "a.b(", 1),
    ] {
        let mut grep = Grep::new(Pattern::new(pattern, style).unwrap(), Bounds::default());
        grep.text("x", "strasse\närger\na.b(\naxb(\n".as_bytes());
        assert_eq!(grep.finish().matches.len(), n, "{pattern}");
    }
}
