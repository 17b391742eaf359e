//! Searching: which files are searched, and that none of them is outside.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use ringfence_engine::files::{
    Cut, FileRules, GrepBounds, GrepQuery, GrepReport, Grepped, PatternStyle, Patterns, Select,
    Workspace,
};

use crate::hostile;
use crate::rows::rows;
use crate::world::{CANARY, LOOKUPS, World, code};

pub(crate) fn for_text(pattern: &str) -> GrepQuery {
    GrepQuery {
        patterns: vec![pattern.to_owned()],
        bounds: GrepBounds { matches_max: 1000, ..GrepBounds::default() },
        ..GrepQuery::default()
    }
}

fn places(found: &Grepped) -> Vec<String> {
    found.matches.iter().map(|hit| format!("{}:{}", hit.path, hit.line)).collect()
}

fn found_in(workspace: &Workspace, glob: Option<&str>, path: &str) -> Vec<String> {
    let query = GrepQuery { glob: glob.map(str::to_owned), ..for_text("needle") };
    places(&workspace.grep(path, &query).unwrap())
}

#[test]
fn files_are_searched_in_order_and_links_and_git_are_not() {
    let world = World::new();
    world.put("b.py", "x\nneedle\n");
    world.put("a/c.rs", "needle");
    world.put("a/d/e.py", "needle");
    world.put(".hidden", "needle");
    world.put(".git/config", "needle");
    world.put("binary", b"\0needle");
    world.link("b.py", "linked.py");
    world.link("a", "linked");
    crate::world::fifo(&world.inside("pipe"));
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        let all = [".hidden:1", "a/c.rs:1", "a/d/e.py:1", "b.py:2"];
        assert_eq!(found_in(&workspace, None, "."), all);
        assert_eq!(found_in(&workspace, None, "/workspace/a"), all[1..3]);
        assert_eq!(found_in(&workspace, None, "b.py"), all[3..]);
        assert_eq!(found_in(&workspace, Some("*.py"), "."), all[2..]);
        assert_eq!(found_in(&workspace, Some("a/*"), "."), all[1..2]);
        assert_eq!(found_in(&workspace, Some("a/**/*.py"), "."), all[2..3]);
    }
}

#[test]
fn hidden_and_ignored_files_and_other_types_are_skipped_if_asked() {
    let world = World::new();
    world.put(".gitignore", "*.log\n/out/\n!keep.log\n");
    world.put(".hidden/a.py", "needle");
    world.put(".b.py", "needle");
    world.put("a.log", "needle");
    world.put("keep.log", "needle");
    world.put("out/a.py", "needle");
    world.put("src/.gitignore", "gen.py\n");
    world.put("src/a.py", "needle");
    world.put("src/a.rs", "needle");
    world.put("src/gen.py", "needle");
    world.put("src/out/b.log", "needle");
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        let find = |path: &str, query: GrepQuery| {
            let found = workspace.grep(path, &query).unwrap();
            found.matches.iter().map(|hit| hit.path.clone()).collect::<Vec<_>>().join(" ")
        };
        let query = for_text("needle");
        assert_eq!(
            find(".", query.clone()),
            ".b.py .hidden/a.py a.log keep.log out/a.py src/a.py src/a.rs src/gen.py src/out/b.log"
        );
        let visible = GrepQuery { skip_hidden: true, ..query.clone() };
        assert_eq!(
            find(".", visible.clone()),
            "a.log keep.log out/a.py src/a.py src/a.rs src/gen.py src/out/b.log"
        );
        let tracked = GrepQuery { skip_ignored: true, ..visible };
        assert_eq!(find(".", tracked.clone()), "keep.log src/a.py src/a.rs");
        // The rules above a directory hold in it; a path that is named is searched.
        assert_eq!(find("src", tracked.clone()), "src/a.py src/a.rs");
        assert_eq!(find("out", tracked.clone()), "out/a.py");
        assert_eq!(find("a.log", tracked.clone()), "a.log");
        let python = GrepQuery { types: vec!["py".into()], ..query.clone() };
        assert_eq!(find(".", python), ".b.py .hidden/a.py out/a.py src/a.py src/gen.py");
        let both = GrepQuery { types: vec!["rust".into(), "log".into()], ..tracked };
        assert_eq!(find(".", both), "keep.log src/a.rs");
    }
    let unknown = GrepQuery { types: vec!["pithon".into()], ..for_text("x") };
    let refused = world.open(LOOKUPS[0]).grep(".", &unknown).unwrap_err();
    assert_eq!(refused.code.as_str(), "bad_arguments");
}

#[test]
fn threads_change_neither_order_nor_limits() {
    let world = World::new();
    // Enough batches for several threads, of different sizes, some slow.
    for n in 0..600 {
        let text = if n % 50 == 0 { "x\n".repeat(100_000) } else { String::new() };
        world.put(format!("d{:02}/f{n:03}", n % 37), format!("{text}needle {n}\nother\nneedle\n"));
    }
    let workspace = world.open(LOOKUPS[0]);
    let mut expected = Vec::new();
    for dir in 0..37 {
        expected.extend((0..600).filter(|n| n % 37 == dir).map(|n| format!("d{dir:02}/f{n:03}")));
    }
    let files = |report, max| {
        let bounds = GrepBounds { matches_max: max, ..GrepBounds::default() };
        workspace.grep(".", &GrepQuery { report, bounds, ..for_text("needle") }).unwrap()
    };
    let found = files(GrepReport::Files, 600);
    let paths: Vec<_> = found.files.iter().map(|file| file.path.clone()).collect();
    assert_eq!((paths, found.n_files, found.cut), (expected.clone(), 600, None));
    for max in [1, 2, 63, 64, 65, 66, 500, 599] {
        let found = files(GrepReport::Files, max);
        let paths: Vec<_> = found.files.iter().map(|file| file.path.clone()).collect();
        assert_eq!((paths.as_slice(), found.cut), (&expected[..max], Some(Cut::Matches)), "{max}");
        let found = files(GrepReport::Lines, 2 * max - 1);
        let last = found.matches.last().unwrap();
        assert_eq!((last.path.as_str(), last.column), (expected[max - 1].as_str(), 1), "{max}");
        assert_eq!((found.matches.len(), found.cut), (2 * max - 1, Some(Cut::Matches)));
    }
    let found = files(GrepReport::Counts, 1000);
    assert!(found.files.len() == 600 && found.files.iter().all(|file| file.count == Some(2)));
    let style = PatternStyle { select: Select::NonMatching, ..PatternStyle::default() };
    let query = GrepQuery { style, report: GrepReport::Counts, ..for_text("needle|x") };
    assert!(workspace.grep(".", &query).unwrap().files.iter().all(|file| file.count == Some(1)));
    for (bytes, text_bytes) in [(1 << 20, 10 << 20), (1, 1)] {
        let bounds = GrepBounds {
            matches_max: 10_000,
            total_bytes_max: bytes,
            text_bytes_max: text_bytes,
            ..GrepBounds::default()
        };
        let found = workspace.grep(".", &GrepQuery { bounds, ..for_text("needle") }).unwrap();
        assert_eq!(found.cut, Some(Cut::Bytes), "{bytes}");
        assert!(found.n_files < 600);
    }
}

#[test]
fn what_may_not_be_read_is_not_searched() {
    let world = World::new();
    world.put("secret/key", "needle");
    world.put("open", "needle");
    let rules =
        FileRules { read_forbidden: Patterns::parse(["secret"]).unwrap(), ..FileRules::default() };
    let workspace = world.open_by(rules, LOOKUPS[0]);
    assert_eq!(found_in(&workspace, None, "."), ["open:1"]);
    let refused = workspace.grep("secret/key", &for_text("needle")).unwrap_err();
    assert_eq!(refused.code.as_str(), "path_forbidden");
}

#[test]
fn a_bad_pattern_or_glob_is_said() {
    let world = World::new();
    let workspace = world.open(LOOKUPS[0]);
    assert_eq!(workspace.grep(".", &for_text("(")).unwrap_err().code.as_str(), "pattern_invalid");
    for glob in ["[".to_owned(), "x".repeat(600), format!("{{{}}}", "a,".repeat(40))] {
        let query = GrepQuery { glob: Some(glob), ..for_text("x") };
        assert_eq!(workspace.grep(".", &query).unwrap_err().code.as_str(), "pattern_invalid");
    }
}

#[test]
fn names_that_do_not_fit_take_time_too() {
    let world = World::new();
    world.put("a/b", "needle");
    let query = GrepQuery {
        glob: Some("*.py".into()),
        bounds: GrepBounds { time_max: Duration::ZERO, ..GrepBounds::default() },
        ..for_text("needle")
    };
    let found = world.open(LOOKUPS[0]).grep(".", &query).unwrap();
    assert_eq!((found.n_files, found.cut), (0, Some(Cut::Time)));
}

/// A name may take a second to match with the slowest ignore rules: the clock is looked at before each.
#[test]
fn hostile_ignore_files_do_not_outlast_the_time_of_a_search() {
    let world = World::new();
    let mut state = 1u64;
    let mut letters = || -> String {
        let random = (0..240).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if state >> 63 == 0 { 'a' } else { 'b' }
        });
        random.collect()
    };
    let mut dir = String::new();
    let rules = format!("*a{}.c\n", "?".repeat(15)).repeat(3000);
    for depth in 0..4 {
        dir = format!("{dir}{}/", letters());
        if depth < 2 {
            world.put(format!("{dir}.gitignore"), &rules);
        }
    }
    // Fewer than there are between two checks without ignore files.
    for n in 0..30 {
        world.put(format!("{dir}{n}{}.c", letters()), "needle");
    }
    let workspace = world.open(LOOKUPS[0]);
    let took = |time_max| {
        let bounds = GrepBounds { time_max, ..GrepBounds::default() };
        let query = GrepQuery { bounds, skip_ignored: true, ..for_text("needle") };
        let began = Instant::now();
        let found = workspace.grep(".", &query).unwrap();
        (began.elapsed(), found.cut)
    };
    let (whole, cut) = took(Duration::from_mins(10));
    assert_eq!(cut, None);
    let (ended, cut) = took(whole / 2);
    assert_eq!(cut, Some(Cut::Time));
    assert!(ended < whole * 3 / 4, "{ended:?} of {whole:?}");
}

#[test]
fn hostile_paths_lead_nowhere() {
    let world = hostile::world();
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        for (path, answers) in rows() {
            let answer = workspace.grep(OsStr::from_bytes(&path), &for_text("."));
            // A file is searched as it is read, a directory as it is listed.
            let expected = if answers[1] == "ok" { "ok" } else { answers[0] };
            let row = format!("{lookup:?} {:.60?}", String::from_utf8_lossy(&path));
            assert_eq!(code(&answer), expected, "{row}: {answer:?}");
            assert!(!format!("{answer:?}").contains(CANARY), "{row} told what is outside");
        }
    }
}
