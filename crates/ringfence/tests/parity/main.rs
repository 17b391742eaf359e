//! One table of requests through `run`, `exec`, `batch`, `repl`, the library, MCP over stdio, MCP over HTTP and REST: the
//! outcome is the same, but for ids, times and memory. Without arguments all rows; with words those whose name contains one.
//!
//! Started by root it runs everything twice, the second time as an ordinary user. The binary is also the program that embeds
//! the library: a launcher is started while a process has one thread, which a test of libtest never has.

#![allow(clippy::disallowed_methods)]

mod faces;
mod library;
mod rows;

#[allow(dead_code, reason = "the tests of `it` use more of it")]
#[path = "../it/http/client.rs"]
mod http;
#[allow(dead_code, reason = "the tests of `it` use more of it")]
#[path = "../it/mcp/client.rs"]
mod mcp;
#[allow(dead_code, reason = "the tests of `it` use more of it")]
#[path = "../it/support.rs"]
mod support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use ringfence_testing::{Json, json};

use faces::{Face, SHORTENED};
use rows::Row;
use support::World;

fn main() -> ExitCode {
    // The library is embedded by this program, which is its own launcher.
    ringfence_engine::init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, data] = &args[..]
        && mode == "--library"
    {
        let operator = std::env::var("RINGFENCE_TEST_OPERATOR").unwrap_or_default();
        return match library::serve(Path::new(data), &operator) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let words: Vec<&str> =
        args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    let rows = rows::rows();
    let rows: Vec<&Row> = rows
        .iter()
        .filter(|row| words.is_empty() || words.iter().any(|word| row.name.contains(word)))
        .collect();
    if args.iter().any(|arg| arg == "--list") {
        for row in &rows {
            println!("{}: test", row.name);
        }
        return ExitCode::SUCCESS;
    }
    if rows.is_empty() || !support::have("namespaces") {
        return ExitCode::SUCCESS;
    }
    let mut n_failed = table(&rows, rows::OPERATOR);
    if words.is_empty() {
        let rows = rows::without_python();
        n_failed += table(&rows.iter().collect::<Vec<_>>(), rows::NO_PYTHON);
    }
    println!("\n{} rows, {n_failed} failed", rows.len());
    if n_failed > 0 {
        return ExitCode::FAILURE;
    }
    // Rows have spaces in their names: all of them, or none.
    if words.is_empty() {
        support::again_as_an_ordinary_user();
    }
    ExitCode::SUCCESS
}

/// Asks everybody for every row; how many of them did not come out the same.
fn table(rows: &[&Row], operator: &str) -> usize {
    let world = World::new();
    world.write("home/.config/ringfence/config.toml", operator);
    world.write(&format!("work/{}", rows::SECRET), "SECRET=1\n");
    let mut faces = faces::all(&world, operator);
    let failed = |row: &&&Row| {
        // A panic has told what is wrong.
        let ran = catch_unwind(AssertUnwindSafe(|| same_for_all(&mut faces, row)));
        println!("row {} ... {}", row.name, if ran.is_ok() { "ok" } else { "FAILED" });
        ran.is_err()
    };
    rows.iter().filter(failed).count()
}

/// Every way out that an outcome names.
fn hints(outcome: &Json) -> Vec<String> {
    let error = outcome.pointer("/error/hint").and_then(Json::as_str).map(str::to_owned);
    let denials = outcome["denials"].as_array().into_iter().flatten();
    let denials = denials.filter_map(|denial| Some(denial.get("hint")?.as_str()?.to_owned()));
    error.into_iter().chain(denials).collect()
}

/// Adds what MCP leaves out: fields at their default and, of a run that went well, what it used and what held it.
fn fill(outcome: &mut Json, first: Option<&Json>) {
    let nothing = json!({
        "artifacts": [], "connections": [], "denials": [], "encoding": "utf-8", "error": null, "exception": null, "exit_code": 0,
        "findings": [], "notes": [], "session_id": null, "signal": null, "start": "warm", "stderr": "", "stdout": "",
        "truncated": {"dropped_bytes": 0, "stderr": false, "stdout": false}, "value": null,
        "workspace": {"protected_created": [], "set_aside": []},
    });
    for (name, value) in nothing.as_object().unwrap() {
        if outcome.get(name.as_str()).is_none() {
            outcome.insert(name, value.clone());
        }
    }
    for name in ["enforcement", "usage", "unobserved"] {
        if outcome.get(name).is_none() {
            let known = first.and_then(|first| first.get(name)).cloned();
            outcome.insert(name, known.unwrap_or(Json::Null));
        }
    }
}

fn same_for_all(faces: &mut [Box<dyn Face + '_>], row: &Row) {
    let mut first: Option<Json> = None;
    for face in faces.iter_mut().filter(|face| face.takes(&row.asked)) {
        let mut outcome = face.ask(&row.asked);
        let name = face.name();
        if name.contains("MCP") {
            fill(&mut outcome, first.as_ref());
        }
        let shown = || shortened(&outcome);
        assert_eq!(outcome["status"], row.status, "{name}: {}", shown());
        for (pointer, value) in &row.expected {
            assert_eq!(outcome.pointer(pointer), Some(value), "{pointer} by {name}: {}", shown());
        }
        // Each face words its hints with what its reader has.
        let hints = hints(&outcome);
        let has_flags = !["REST", "MCP"].iter().any(|word| name.contains(word));
        assert!(has_flags || !hints.iter().any(|hint| hint.contains("`--")), "{name}: {hints:?}");
        let mut outcome = stripped(outcome);
        if name.contains("MCP") {
            drop_notes_about_tools(&mut outcome);
        }
        let Some(first) = &first else {
            first = Some(outcome);
            continue;
        };
        let mut found = Vec::new();
        differences(&outcome, first, "", &mut found);
        // Output that is not long is as it is everywhere.
        let is_long = first["truncated"]["stdout"] == true;
        let own = face.own(&row.asked).iter().filter(|at| is_long || !SHORTENED.contains(at));
        let own: Vec<&str> = own.copied().collect();
        found.retain(|(at, _)| !own.contains(&at.as_str()) && !at.ends_with("/hint"));
        assert!(found.is_empty(), "{name} and REST differ: {found:#?}");
        // What is left of long output is its beginning.
        let begin = |outcome: &Json| {
            outcome["stdout"].as_str().unwrap().chars().take(1000).collect::<String>()
        };
        assert_eq!(begin(&outcome), begin(first), "{name}");
    }
}

/// What two runs of the same never share.
fn stripped(mut outcome: Json) -> Json {
    let fields = outcome.as_object_mut().unwrap();
    for own in ["run_id", "usage", "start"] {
        assert!(fields.remove(own).is_some(), "{own}");
    }
    for denial in fields.get_mut("denials").and_then(Json::as_array_mut).unwrap() {
        assert!(denial.get("pid").is_some(), "{denial}");
        denial.insert("pid", Json::Null);
        denial.insert("hint", Json::Null);
    }
    outcome
}

/// Removes the notes that name other tools: only a client of MCP has those.
fn drop_notes_about_tools(outcome: &mut Json) {
    let notes =
        outcome.as_object_mut().unwrap().get_mut("notes").and_then(Json::as_array_mut).unwrap();
    notes.retain(|note| !note.as_str().unwrap().contains("run_command"));
}

/// Every place where two values are not the same, and both of them.
fn differences(one: &Json, other: &Json, at: &str, found: &mut Vec<(String, String)>) {
    match (one, other) {
        (Json::Object(a), Json::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let at = format!("{at}/{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => differences(a, b, &at, found),
                    (one, other) => {
                        let only = one.or(other).map_or_else(String::new, shortened);
                        found.push((at, format!("only one has it: {only}")));
                    }
                }
            }
        }
        _ if one == other => {}
        _ => found.push((at.to_owned(), format!("{}, not {}", shortened(one), shortened(other)))),
    }
}

fn shortened(value: &Json) -> String {
    value.to_string().chars().take(1000).collect()
}
