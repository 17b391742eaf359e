//! Searching: which files are searched, and that none of them is outside.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use ringfence_engine::files::{
    Cut, FileRules, GrepBounds, GrepQuery, Grepped, PatternStyle, Patterns, Workspace,
};

use crate::hostile;
use crate::rows::rows;
use crate::world::{CANARY, LOOKUPS, World, code};

pub(crate) fn for_text(pattern: &str) -> GrepQuery {
    GrepQuery {
        pattern: pattern.to_owned(),
        style: PatternStyle::default(),
        glob: None,
        bounds: GrepBounds { matches_max: 1000, ..GrepBounds::default() },
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
