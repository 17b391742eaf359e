//! Programs as a model writes them, in `tests/snippets`: the default screen refuses none, and each that fails for want
//! of processes or network says so in one line. The first line of each says what to expect:
//! `# expect: ok`, `# expect: error TEXT` or `# expect: denied TEXT`, and `; needs PACKAGE` for each package.

use std::collections::BTreeMap;

use ringfence_testing::{Json, json};

use crate::python::{batch, has, with_libraries};
use crate::support::{self, World};

struct Snippet {
    name: String,
    code: String,
}

impl Snippet {
    /// The expected end, and the text that explains it.
    fn expected(&self) -> (&str, &str) {
        let line = self.code.lines().next().and_then(|line| line.strip_prefix("# expect: "));
        let line = line.unwrap_or_else(|| panic!("{} expects nothing", self.name));
        let line = line.split(';').next().unwrap_or(line).trim();
        line.split_once(' ').unwrap_or((line, ""))
    }

    fn needs(&self) -> impl Iterator<Item = &str> {
        let line = self.code.lines().next().unwrap_or_default();
        line.split("; needs ").skip(1).map(str::trim)
    }
}

fn snippets() -> Vec<Snippet> {
    let mut list: Vec<_> = std::fs::read_dir(support::snippets())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            Snippet { name, code: std::fs::read_to_string(path).unwrap() }
        })
        .collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(list.len() >= 150, "{}", list.len());
    list
}

#[test]
fn everyday_programs_run_or_say_in_one_line_why_not() {
    let world = World::new();
    let mut list = snippets();
    let item = |each: &Snippet| json!({"id": each.name.clone(), "code": each.code.clone()});
    let items: Vec<Json> = list.iter().map(item).collect();
    let python = with_libraries(&world);
    let outcomes = batch(&world, &[&["-j", "2"], python].concat(), &items);
    let refused = outcomes.values().filter(|outcome| outcome["status"] == "blocked").count();
    assert_eq!(refused, 0);
    let mut installed: BTreeMap<String, bool> = BTreeMap::new();
    list.retain(|each| {
        each.needs().all(|name| {
            *installed.entry(name.to_owned()).or_insert_with(|| has(&world, python, name))
        })
    });
    assert!(list.len() >= 130, "{}", list.len());
    for each in &list {
        let outcome = &outcomes[&each.name];
        let (end, reason) = each.expected();
        let status = outcome["status"].as_str().unwrap();
        assert_eq!(status, if end == "error" { "error" } else { "ok" }, "{} {outcome}", each.name);
        let denials = outcome["denials"].as_array().unwrap();
        let hints = denials.iter().map(|denial| denial["hint"].as_str().unwrap());
        let stderr = outcome["stderr"].as_str().unwrap().lines();
        assert!(
            hints.chain(stderr).any(|line| line.contains(reason)) || reason.is_empty(),
            "{} does not say `{reason}`: {outcome}",
            each.name
        );
        // What works is no alarm, unless the program itself tried something and went on without it.
        let tries = ["subprocess", "urllib", "requests", "socket"];
        if end == "ok" && !tries.iter().any(|word| each.code.contains(word)) {
            assert_eq!(denials.len(), 0, "{} {outcome}", each.name);
        }
    }
}
