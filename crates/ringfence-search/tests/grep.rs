//! What a search finds, and where it stops.

#![allow(clippy::disallowed_methods)]

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_search::{
    Bounds, Case, Context, Cut, Found, Grep, Pattern, PatternStyle, Report, Select,
};

const USUAL: PatternStyle = PatternStyle {
    literal: false,
    case: Case::Sensitive,
    words: false,
    multiline: false,
    select: Select::Matching,
};

fn search(pattern: &str, bounds: Bounds, texts: &[(&str, &[u8])]) -> Found {
    search_with(pattern, USUAL, Report::Lines, bounds, texts)
}

fn search_with(
    pattern: &str,
    style: PatternStyle,
    report: Report,
    bounds: Bounds,
    texts: &[(&str, &[u8])],
) -> Found {
    let mut grep = Grep::new(Pattern::new(pattern, style).unwrap(), bounds, report);
    for (path, text) in texts {
        grep.text(path, *text);
    }
    grep.finish()
}

const AROUND: Context = Context { before: 1, after: 1 };

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
    let bounds = Bounds { context: AROUND, ..Bounds::default() };
    let found = search("m", bounds, &[("x", b"1\nm1\nm2\n4\n5\n6\nm3\n8\n")]);
    assert_eq!(shown(&found), ["x:2:1 1|m1|m2", "x:3:1 m1|m2|4", "x:7:1 6|m3|8"]);
}

#[test]
fn enough_is_said_only_when_there_is_more() {
    let bounds = Bounds { matches_max: 2, context: AROUND, ..Bounds::default() };
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
    let mut grep = Grep::new(Pattern::new("m", USUAL).unwrap(), bounds, Report::Lines);
    grep.text("x", Endless);
    assert!(grep.is_over());
    assert_eq!(grep.finish().cut, Some(Cut::Time));
    assert!(began.elapsed() < Duration::from_mins(1));
}

#[test]
fn no_pattern_hangs() {
    // Each of these takes a backtracking matcher longer than the age of the universe.
    let text = format!("{}!\n", "a".repeat(100_000));
    for pattern in [
        "(a+)+$",
        "(a|a)*b",
        "(a?){50}a{50}$",
        "(.*)*x",
        "([a-z]+)*[0-9]",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
        r"^(\w+\s?)*$",
        r"(\w|\d|a)+[^a]{20}b",
        r"((a{1,20}){1,20})+!?b",
        r"^(?:a*a*)*(?:aa|a)+\S+@",
        r"(?s)(.|\n)*\n\n!",
        r"(?i)(ß|ss|ſ|a)+K$",
    ] {
        for (words, multiline, select, report) in [
            (false, false, Select::Matching, Report::Lines),
            (true, false, Select::Matching, Report::Counts),
            (false, true, Select::Matching, Report::Counts),
            (true, true, Select::NonMatching, Report::Lines),
        ] {
            let style = PatternStyle { words, multiline, select, ..USUAL };
            // A line end is part of a pattern only where matches may span lines.
            let Ok(pattern) = Pattern::new(pattern, style) else { continue };
            let began = Instant::now();
            let mut grep = Grep::new(pattern.clone(), Bounds::default(), report);
            grep.text("x", text.as_bytes());
            assert!(began.elapsed() < Duration::from_mins(1), "{pattern:?}");
        }
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
    let pattern = Pattern::new("m", USUAL).unwrap();
    let mut grep = Grep::unless(pattern, Bounds::default(), Report::Lines, Arc::clone(&stop));
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
        (PatternStyle { case: Case::Insensitive, ..USUAL }, "STRASSE|ÄRGER", 2),
        (PatternStyle { literal: true, ..USUAL }, "a.b(", 1),
    ] {
        let text = "strasse\närger\na.b(\naxb(\n".as_bytes();
        let found = search_with(pattern, style, Report::Lines, Bounds::default(), &[("x", text)]);
        assert_eq!(found.matches.len(), n, "{pattern}");
    }
}

#[test]
fn lines_before_and_after_are_asked_for_apart() {
    let text = b"1\n2\nm3\n4\nm5\n6\n7\nm8";
    for (before, after, expected) in [
        (2, 0, ["x:3:1 1,2|m3|", "x:5:1 m3,4|m5|", "x:8:1 6,7|m8|"]),
        (0, 2, ["x:3:1 |m3|4,m5", "x:5:1 |m5|6,7", "x:8:1 |m8|"]),
        (1, 3, ["x:3:1 2|m3|4,m5,6", "x:5:1 4|m5|6,7,m8", "x:8:1 7|m8|"]),
    ] {
        let bounds = Bounds { context: Context { before, after }, ..Bounds::default() };
        for multiline in [false, true] {
            let style = PatternStyle { multiline, ..USUAL };
            let found = search_with("m", style, Report::Lines, bounds, &[("x", text)]);
            assert_eq!(shown(&found), expected, "{multiline}");
        }
    }
    let asked = Context::asked(Some(2), None, Some(7));
    assert_eq!(asked, Context { before: 2, after: 7 });
    assert_eq!(Bounds::asked(None, Context { before: 900, after: 0 }).context.before, 30);
}

#[test]
fn a_line_around_two_matches_is_printed_once() {
    let bounds = Bounds { context: AROUND, ..Bounds::default() };
    let text = b"1\nm2\n3\nm4\nm5\n6\n7\n8\nm9\n";
    let found = search("m", bounds, &[("x", text), ("y", b"m\n")]);
    assert_eq!(
        found.to_string(),
        "x-1-1\nx:2:m2\nx-3-3\nx:4:m4\nx:5:m5\nx-6-6\n--\nx-8-8\nx:9:m9\n--\ny:1:m\n"
    );
    let found = search("m", Bounds::default(), &[("x", text)]);
    assert_eq!(found.to_string(), "x:2:m2\nx:4:m4\nx:5:m5\nx:9:m9\n");
}

#[test]
fn words_are_those_of_unicode() {
    let words = PatternStyle { words: true, ..USUAL };
    for (pattern, text, n) in [
        ("foo", "foo\nfoobar\na foo.\nfoo_\nfoo1\n", 2),
        ("grün", "grün\ngrüne\ningrün\n(grün)\n", 2),
        ("gr", "grün\ngr-ün\n", 1),
        ("日本", "日本\n日本語\n「日本」\n", 2),
        ("é", "é\ncafé\né!\n", 2),
        (r"-\w+", "x -foo\n--foo\n", 2),
        ("a|ab", "ab\nabc\n", 1),
    ] {
        for literal in [false, true] {
            if literal && pattern.contains(['\\', '|']) {
                continue;
            }
            let style = PatternStyle { literal, ..words };
            let bounds = Bounds::default();
            let found =
                search_with(pattern, style, Report::Lines, bounds, &[("x", text.as_bytes())]);
            assert_eq!(found.matches.len(), n, "{pattern} {literal} {:?}", shown(&found));
        }
    }
}

#[test]
fn case_may_depend_on_the_pattern() {
    let smart = PatternStyle { case: Case::Smart, ..USUAL };
    for (pattern, n) in [("foo", 2), ("Foo", 1), (r"f\Soo|foo", 2), ("äpfel", 1)] {
        let text = "foo\nFoo\nÄpfel\n".as_bytes();
        let found = search_with(pattern, smart, Report::Lines, Bounds::default(), &[("x", text)]);
        assert_eq!(found.matches.len(), n, "{pattern}");
    }
}

#[test]
fn lines_without_a_match_are_selected() {
    let text = b"a\nm1\nb\n\nm2\nc";
    let context = Bounds { context: AROUND, ..Bounds::default() };
    for multiline in [false, true] {
        let style = PatternStyle { select: Select::NonMatching, multiline, ..USUAL };
        let find = |report, bounds| search_with("m", style, report, bounds, &[("x", text)]);
        let found = find(Report::Lines, Bounds::default());
        assert_eq!(shown(&found), ["x:1:1 |a|", "x:3:1 |b|", "x:4:1 ||", "x:6:1 |c|"]);
        let found = find(Report::Lines, context);
        assert_eq!(
            shown(&found),
            ["x:1:1 |a|m1", "x:3:1 m1|b|", "x:4:1 b||m2", "x:6:1 m2|c|"],
            "{multiline}"
        );
        assert_eq!(find(Report::Counts, Bounds::default()).to_string(), "x:4\n", "{multiline}");
        assert_eq!(find(Report::Files, Bounds::default()).to_string(), "x\n");
        let all = search_with(".", style, Report::Files, context, &[("x", b"a\nb\n")]);
        assert!(all.is_empty(), "{all:?}");
    }
}

#[test]
fn files_are_named_and_counted_within_the_limit() {
    let texts: &[(&str, &[u8])] =
        &[("a", b"m\nm m\n"), ("b", b"x\n"), ("c", b"m"), ("d", b"\nm\n"), ("e", b"x")];
    let limit = |matches_max| Bounds { matches_max, context: AROUND, ..Bounds::default() };
    let find = |report, max| search_with("m", USUAL, report, limit(max), texts);
    let found = find(Report::Files, 3);
    assert_eq!((found.to_string().as_str(), found.cut, found.n_files), ("a\nc\nd\n", None, 5));
    let found = find(Report::Files, 2);
    assert_eq!((found.to_string().as_str(), found.cut), ("a\nc\n", Some(Cut::Matches)));
    let found = find(Report::Counts, 3);
    assert_eq!((found.to_string().as_str(), found.cut), ("a:2\nc:1\nd:1\n", None));
    assert!(found.matches.is_empty());
    // A count goes beyond the limit, which is on files.
    let many = "m\n".repeat(1000);
    let found = search_with("m", USUAL, Report::Counts, limit(1), &[("a", many.as_bytes())]);
    assert_eq!((found.files[0].count, found.cut), (Some(1000), None));
}

const ACROSS: PatternStyle = PatternStyle { multiline: true, ..USUAL };

fn across(pattern: &str, text: &[u8]) -> Found {
    search_with(pattern, ACROSS, Report::Lines, Bounds::default(), &[("x", text)])
}

#[test]
fn a_match_may_span_lines() {
    let text = b"fn a(\n    x: u8,\n) {}\nfn b() {}\nfn c(\n) {}\n";
    let found = across(r"fn \w\(\s*\n[^)]*\)", text);
    assert_eq!(shown(&found), ["x:1:1 |fn a(\n    x: u8,\n) {}|", "x:5:1 |fn c(\n) {}|"]);
    assert_eq!(found.to_string(), "x:1:fn a(\nx:2:    x: u8,\nx:3:) {}\nx:5:fn c(\nx:6:) {}\n");
    // `.` matches no line end unless it is told to.
    assert!(across("a.b", b"a\nb").is_empty());
    assert_eq!(shown(&across("(?s)a.b", b"xa\nby\n")), ["x:1:2 |xa\nby|"]);
    for (pattern, text, expected) in [
        (r"a\nb", "a\nb\na\nb\n", &["x:1:1 |a\nb|", "x:3:1 |a\nb|"][..]),
        (r"a\n", "a\nb\n", &["x:1:1 |a|"]),
        (r"^$", "a\n\nb\n", &["x:2:1 ||"]),
        (r"\n\n", "a\n\nb\n", &["x:1:2 |a\n|"]),
        ("b$", "ab\r\nb\n", &["x:2:1 |b|"]),
        (r"\Aa", "a\na\n", &["x:1:1 |a|"]),
        (r"a\z", "a\na", &["x:2:1 |a|"]),
        ("a|b\nc", "a b\nc a\nd\na\n", &["x:1:1 |a b\nc a|", "x:4:1 |a|"]),
        ("x*", "a\nb", &["x:1:1 |a|", "x:2:1 |b|"]),
        ("x*", "", &[]),
        ("é\n", "\u{feff}é\n", &["x:1:1 |é|"]),
    ] {
        assert_eq!(shown(&across(pattern, text.as_bytes())), expected, "{pattern:?}");
    }
    let counted = |pattern, style| {
        let text = b"a\nb\na\nb a\nb\nc\n";
        search_with(pattern, style, Report::Counts, Bounds::default(), &[("x", text)]).to_string()
    };
    assert_eq!(counted(r"a\nb", ACROSS), "x:3\n");
    assert_eq!(counted(r"a\nb", PatternStyle { select: Select::NonMatching, ..ACROSS }), "x:1\n");
    assert_eq!(counted(r"a\nb", PatternStyle { words: true, ..ACROSS }), "x:3\n");
    let found = across("m", b"m\nx\0m\n");
    assert_eq!((found.matches.len(), found.n_skipped), (1, 1));
    let bounds = Bounds { matches_max: 2, ..Bounds::default() };
    let texts: &[(&str, &[u8])] = &[("x", b"m\nm\nm\n"), ("y", b"m\n")];
    let found = search_with("m", ACROSS, Report::Lines, bounds, texts);
    assert_eq!((found.matches.len(), found.n_files, found.cut), (2, 1, Some(Cut::Matches)));
}

#[test]
fn across_windows_the_same_is_found() {
    // Several windows of 256 KiB, with matches at their borders.
    let mut text = String::new();
    let mut n = 0;
    while text.len() < 2_000_000 {
        text.push_str(if n % 7 == 0 { "begin\nend\n" } else { "a line of middling length\n" });
        n += 1;
    }
    let bounds =
        Bounds { matches_max: 100_000, time_max: Duration::from_mins(2), ..Bounds::default() };
    let find = |pattern, text: &str| {
        let texts = [("x", text.as_bytes())];
        search_with(pattern, ACROSS, Report::Counts, bounds, &texts).files[0].count.unwrap()
    };
    let expected = text.matches("begin\nend").count() as u64;
    assert_eq!(find(r"begin\nend", &text), expected);
    assert_eq!(find(r"begin\s+end$", &text), expected);
    assert_eq!(find(r"^end\n", &text), expected);
    assert_eq!(find("$", &text), text.lines().count() as u64);
    assert_eq!(find(r"\z", &text[..text.len() - 1]), 1);
    // On one line, windows end anywhere.
    let line = text.replace('\n', " ");
    assert_eq!(find(r"begin\s+end", &line), expected);
    assert_eq!(find(r"\w$", &line[..line.len() - 1]), 1);
    // A match longer than a window ends with it.
    assert!(find("(?s)b.*", &text) <= 9);
}

#[test]
fn a_text_that_takes_too_long_is_given_up() {
    let text = "a\n".repeat(1_000_000);
    let texts = [("x", text.as_bytes()), ("y", b"a\n".as_slice())];
    let began = Instant::now();
    let bounds = Bounds { time_max: Duration::from_mins(2), ..Bounds::default() };
    let found = search_with("(?s)a(?:.*b)?", ACROSS, Report::Counts, bounds, &texts);
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    assert_eq!((found.n_files, found.n_skipped, found.cut), (2, 1, None));
}

#[test]
fn one_of_several_patterns_is_enough() {
    for (literal, patterns, n) in [(false, ["a.c", "^x"], 2), (true, ["a.c", "^x"], 0)] {
        let style = PatternStyle { literal, ..USUAL };
        let pattern = Pattern::any_of(&patterns, style).unwrap();
        let mut grep = Grep::new(pattern, Bounds::default(), Report::Lines);
        grep.text("t", &b"abc\nxyz\nyx\n"[..]);
        assert_eq!(grep.finish().matches.len(), n, "{literal}");
    }
}

#[test]
fn anchors_are_those_of_lines() {
    for (pattern, expected) in [
        ("^b", &["x:2:1 |b|", "x:4:1 |bb|"][..]),
        ("b$", &["x:2:1 |b|", "x:4:2 |bb|"]),
        ("^b$", &["x:2:1 |b|"]),
        ("^$", &["x:3:1 ||"]),
    ] {
        let found = search(pattern, Bounds::default(), &[("x", b"a\nb\n\nbb\n")]);
        assert_eq!(shown(&found), expected, "{pattern}");
    }
}
