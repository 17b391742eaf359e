//! The crate graph is the map in ARCHITECTURE.md, and `unsafe` lives in one room.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ringfence_testing::{BoundedCommand as _, Json};

use crate::support::have;

/// Which crates of ours each crate may depend on: edges point down.
const MAP: &[(&str, &[&str])] = &[
    (
        "ringfence",
        &[
            "ringfence-audit",
            "ringfence-engine",
            "ringfence-plan",
            "ringfence-screen",
            "ringfence-server",
            "ringfence-spec",
            "ringfence-sys",
        ],
    ),
    ("ringfence-server", &["ringfence-audit", "ringfence-engine", "ringfence-spec"]),
    (
        "ringfence-engine",
        &[
            "ringfence-audit",
            "ringfence-jail",
            "ringfence-net",
            "ringfence-plan",
            "ringfence-python",
            "ringfence-screen",
            "ringfence-search",
            "ringfence-spec",
        ],
    ),
    ("ringfence-audit", &["ringfence-spec", "ringfence-sys"]),
    ("ringfence-jail", &["ringfence-plan", "ringfence-spec", "ringfence-sys"]),
    ("ringfence-net", &["ringfence-plan", "ringfence-spec", "ringfence-sys"]),
    ("ringfence-plan", &["ringfence-spec"]),
    ("ringfence-python", &["ringfence-jail", "ringfence-plan", "ringfence-spec", "ringfence-sys"]),
    ("ringfence-screen", &["ringfence-spec"]),
    ("ringfence-search", &["ringfence-spec", "ringfence-sys"]),
    ("ringfence-spec", &[]),
    ("ringfence-sys", &[]),
    // Of tests alone: as a normal dependency it would be an edge that is not here.
    ("ringfence-testing", &[]),
];

fn sources() -> Option<&'static Path> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    // The second pass runs as a user who may see neither the checkout nor cargo; the first has read them.
    std::env::var_os("RINGFENCE_TEST_AGAIN").is_none().then_some(root)
}

/// Finding, mapping and relocating libraries took a tenth of a run of `true`.
#[test]
fn the_program_needs_no_loader_where_the_static_libraries_are() {
    if sources().is_none() || !have("static") {
        return;
    }
    let program = std::fs::read(env!("CARGO_BIN_EXE_ringfence")).unwrap();
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([program[at], program[at + 1]]));
    let u32_at = |at: usize| u32::from_le_bytes(program[at..at + 4].try_into().unwrap());
    let headers = usize::try_from(u32_at(0x20)).unwrap();
    let (size, count) = (u16_at(0x36), u16_at(0x38));
    let kinds: Vec<u32> = (0..count).map(|i| u32_at(headers + i * size)).collect();
    let (load, interpreter) = (1, 3);
    assert!(kinds.contains(&load), "no program headers at {headers}: {kinds:?}");
    assert!(!kinds.contains(&interpreter), "it asks for a loader");
}

#[test]
fn dependencies_point_down() {
    let Some(root) = sources() else { return };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .bounded_output()
        .unwrap();
    let metadata = Json::parse(&output.stdout);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let normal =
            package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
        let mut ours: Vec<String> = normal
            .map(|d| d["name"].as_str().unwrap().to_owned())
            .filter(|name| name.starts_with("ringfence"))
            .collect();
        ours.sort();
        found.insert(package["name"].as_str().unwrap().to_owned(), ours);
    }
    found.remove("xtask");
    let map: BTreeMap<String, Vec<String>> = MAP
        .iter()
        .map(|(name, edges)| ((*name).to_owned(), edges.iter().map(|e| (*e).to_owned()).collect()))
        .collect();
    assert_eq!(found, map, "ARCHITECTURE.md and this map change together");
}

/// The table says where to change things: every path in it, and every name it says is in that file.
#[test]
fn the_map_names_files_that_exist() {
    let Some(root) = sources() else { return };
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, table) = map.split_once("## Where to change things").unwrap();
    let mut n_paths = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let words: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        for word in &words {
            let (top, _) = word.split_once('/').unwrap_or((word, ""));
            let path = match top {
                "crates" | "xtask" | "docs" | "dist" => root.join(word),
                name if MAP.iter().any(|(known, _)| *known == name) => {
                    root.join("crates").join(word)
                }
                _ => continue,
            };
            assert!(path.exists(), "`{word}` in: {row}");
            n_paths += 1;
        }
        // `NAME in FILE`.
        for pair in row.split("` in `").collect::<Vec<_>>().windows(2) {
            let name = pair[0].rsplit('`').next().unwrap_or_default();
            let file = pair[1].split('`').next().unwrap_or_default();
            let paths = [root.join(file), root.join("crates").join(file)];
            let Some(text) = paths.iter().find_map(|path| std::fs::read_to_string(path).ok())
            else {
                continue;
            };
            assert!(text.contains(name), "`{name}` is not in `{file}`");
        }
    }
    assert!(n_paths > 60, "{n_paths}");
}

#[test]
fn unsafe_code_is_forbidden_everywhere_but_in_sys() {
    let Some(root) = sources() else { return };
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"forbid\""));
    for (name, _) in MAP {
        let text =
            std::fs::read_to_string(root.join("crates").join(name).join("Cargo.toml")).unwrap();
        let inherits = text.contains("[lints]\nworkspace = true");
        assert_eq!(inherits, *name != "ringfence-sys", "{name}");
    }
}

#[test]
fn the_plan_and_the_screen_do_no_io() {
    let Some(root) = sources() else { return };
    let mut pending =
        vec![root.join("crates/ringfence-plan/src"), root.join("crates/ringfence-screen/src")];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for word in
                ["std::fs", "std::env", "std::net", "std::process", "Instant::now", "SystemTime"]
            {
                assert!(!text.contains(word), "{word} in {}", path.display());
            }
        }
    }
}

/// A wait without an end hangs the whole suite, `cargo test` hides the output of a test that passes, and a missing key of a
/// `serde_json::Value` is null.
#[test]
fn tests_have_time_limits_and_loud_skips() {
    // One process without threads, whose program has a limit of its own.
    const ELSEWHERE: &[&str] = &["escapes/container.rs", "escapes/victims.rs"];
    let Some(root) = sources() else { return };
    let mut pending = vec![root.join("crates"), root.join("xtask")];
    let mut n_files = 0;
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let shown = path.display().to_string();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let is_rust = path.extension().is_some_and(|e| e == "rs");
            if !is_rust
                || shown.ends_with("it/house.rs")
                || shown.contains("/ringfence-testing/")
                || ELSEWHERE.iter().any(|file| shown.ends_with(file))
            {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let tests = match text.split_once("#[cfg(test)]") {
                _ if shown.contains("/tests/") => &text,
                Some((_, tests)) => tests,
                None => continue,
            };
            n_files += 1;
            let forbidden = [
                ".output()",
                ".spawn()",
                ".status().unwrap()",
                ".status();",
                "wait_with_output(&",
                "eprintln!(\"SKIPPED",
                "serde_json::Value",
            ];
            for words in forbidden {
                assert!(!tests.contains(words), "`{words}` in {shown}: see ringfence-testing");
            }
        }
    }
    assert!(n_files > 100, "{n_files}");
}

/// The second pass cannot read a checkout below `/root`.
#[test]
fn tests_that_run_twice_read_the_project_through_a_copy() {
    let Some(root) = sources() else { return };
    for suite in ["it", "network", "parity"] {
        let mut pending = vec![root.join("crates/ringfence/tests").join(suite)];
        while let Some(dir) = pending.pop() {
            for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    pending.push(path);
                } else if !path.ends_with("it/support.rs") && !path.ends_with("it/house.rs") {
                    let text = std::fs::read(&path).unwrap();
                    let text = String::from_utf8_lossy(&text);
                    let mut reads = text.lines().filter(|line| !line.contains("include_"));
                    let read = reads.find(|line| line.contains("CARGO_MANIFEST_DIR"));
                    assert_eq!(read, None, "use `support::project()` in {}", path.display());
                }
            }
        }
    }
}
