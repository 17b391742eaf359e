//! Conformance: the protocol's own suite against the service, at the wire of each revision.
//!
//! Most scenarios ask for tools, resources and prompts by name. These run against `ringfence serve --fixtures`: the same
//! binary, door and transport with things to ask for in place of the tools. What needs none of them runs against the tools
//! as they ship. Installs the suite with npm below the target directory, once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;

use crate::service::Service;
use crate::{CannotTry, Verdict, program};

/// The release of the suite; its sets of requirements are frozen, its scenarios are not.
const SUITE: &str = "@modelcontextprotocol/conformance";
const VERSION: &str = "0.2.0-alpha.12";

/// The suite calls functions that older releases lack.
const NODE_MAJOR_MIN: u32 = 22;

/// The revisions with a set of requirements.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Time limit of one scenario; few take a second.
const SCENARIO_MS: &str = "30000";

/// A scenario that asks for nothing by name.
struct Generic {
    revision: &'static str,
    scenario: &'static str,
    /// Checks of it that need something we do not ship; they must not pass by accident.
    not_ours: &'static [&'static str],
}

const GENERIC: [Generic; 13] = [
    generic("2025-11-25", "server-initialize"),
    generic("2025-11-25", "ping"),
    generic("2025-11-25", "tools-list"),
    generic("2025-11-25", "server-sse-multiple-streams"),
    generic("2025-11-25", "server-session-lifecycle"),
    generic("2025-11-25", "dns-rebinding-protection"),
    Generic {
        revision: "2026-07-28",
        scenario: "server-stateless",
        // Each calls a tool that only a fixture has.
        not_ours: &[
            "sep-2575-server-rejects-undeclared-capability",
            "sep-2575-missing-capability-http-400",
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-server-no-log-without-loglevel",
        ],
    },
    generic("2026-07-28", "tools-list"),
    generic("2026-07-28", "server-sse-multiple-streams"),
    generic("2026-07-28", "dns-rebinding-protection"),
    generic("2026-07-28", "http-header-validation"),
    generic("2026-07-28", "input-required-result-unsupported-methods"),
    Generic {
        revision: "2026-07-28",
        scenario: "caching",
        // There are no prompts.
        not_ours: &["sep-2549-prompts-list-caching-hints"],
    },
];

const fn generic(revision: &'static str, scenario: &'static str) -> Generic {
    Generic { revision, scenario, not_ours: &[] }
}

#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// The binary to try; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub(crate) fn conformance(args: &ConformanceArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence_with_fixtures(args.binary.as_ref())?;
    let suite = Suite::install()?;
    let mut table = Table::default();

    let fixtures = Service::start(&binary, &["--fixtures"])?;
    for revision in REVISIONS {
        println!("{revision}, required, against the fixtures");
        let mut results = suite.run(&fixtures.mcp(), &["--requirements", revision])?;
        for scenario in suite.required(revision)? {
            table.row(&scenario, results.remove(&scenario).as_deref(), &[]);
        }
        table.sum();
        for (scenario, checks) in results {
            aside(&scenario, &checks);
        }
        println!();
    }
    drop(fixtures);

    // The suite asks faster than a client may.
    let flags = ["--rate-per-minute", "off", "--breakers", "off"];
    let shipping = Service::start(&binary, &flags)?;
    for revision in REVISIONS {
        println!("{revision}, generic, against the tools");
        for case in GENERIC.iter().filter(|case| case.revision == revision) {
            let arguments = ["--scenario", case.scenario, "--spec-version", revision];
            let results = suite.run(&shipping.mcp(), &arguments)?;
            let checks = results.get(case.scenario).map(Vec::as_slice);
            table.row(case.scenario, checks, case.not_ours);
        }
        table.sum();
        println!();
    }
    Ok(if table.failed { Verdict::Failed } else { Verdict::Held })
}

/// Result of one check of a scenario.
struct Check {
    id: String,
    status: String,
    why: String,
}

impl Check {
    /// Returns true for a pass or a failure; the others are notes, or do not apply.
    fn counts(&self) -> bool {
        matches!(self.status.as_str(), "SUCCESS" | "FAILURE" | "WARNING")
    }
}

/// The suite, installed.
struct Suite {
    node: PathBuf,
    package: PathBuf,
}

impl Suite {
    fn install() -> Result<Self, CannotTry> {
        let place = program::target_dir().join(format!("conformance-{VERSION}"));
        let modules = place.join("node_modules");
        let package = modules.join(SUITE);
        let (mut node, mut wanted) = (PathBuf::from("node"), vec![format!("{SUITE}@{VERSION}")]);
        if node_major("node").is_none_or(|major| major < NODE_MAJOR_MIN) {
            let arch = match std::env::consts::ARCH {
                "aarch64" => "arm64",
                _ => "x64",
            };
            let name = format!("node-linux-{arch}");
            node = modules.join(&name).join("bin/node");
            wanted.push(format!("{name}@{NODE_MAJOR_MIN}"));
        }
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        program::node_modules(&place, &wanted)?;
        Ok(Self { node, package })
    }

    /// The scenarios that a revision requires of a server, in the order of its list.
    fn required(&self, revision: &str) -> Result<Vec<String>, CannotTry> {
        let file = self.package.join(format!("requirements/{revision}.yaml"));
        let text = std::fs::read_to_string(&file)
            .map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        // A list of names below `server:`, until the next key.
        let names = text.lines().skip_while(|line| *line != "server:").skip(1);
        let names = names.map_while(|line| line.strip_prefix("  - "));
        let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
        if names.is_empty() {
            return Err(format!("{} requires nothing", file.display()));
        }
        Ok(names)
    }

    /// Runs scenarios; what each of them said, by name.
    fn run(&self, url: &str, which: &[&str]) -> Result<BTreeMap<String, Vec<Check>>, CannotTry> {
        let results = tempfile::tempdir().map_err(|e| format!("cannot make a directory: {e}"))?;
        let status = Command::new(&self.node)
            .arg(self.package.join("dist/index.js"))
            .args(["server", "--url", url, "--timeout", SCENARIO_MS, "--output-dir"])
            .arg(results.path())
            .args(which)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|e| format!("cannot start {}: {e}", self.node.display()))?;
        // 1 is a check that failed; the reader of the results decides which of them count.
        if !matches!(status.code(), Some(0 | 1)) {
            return Err(format!("the suite ended with {status}"));
        }
        read_results(results.path())
    }
}

/// Reads `server-SCENARIO-TIME/checks.json` of every scenario.
fn read_results(results: &Path) -> Result<BTreeMap<String, Vec<Check>>, CannotTry> {
    let cannot = |e: std::io::Error| format!("cannot read the suite's results: {e}");
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(results).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(scenario) = name.strip_prefix("server-").and_then(without_time) else { continue };
        // A scenario that was stopped by its deadline has left none.
        let Ok(text) = std::fs::read(entry.path().join("checks.json")) else { continue };
        let checks: Vec<Value> = serde_json::from_slice(&text)
            .map_err(|e| format!("cannot read the results of {scenario}: {e}"))?;
        let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
        let checks = checks.iter().map(|check| Check {
            id: text(check, "id"),
            status: text(check, "status"),
            why: text(check, "errorMessage"),
        });
        all.insert(scenario.to_owned(), checks.collect());
    }
    Ok(all)
}

/// Takes `-2026-11-15T13-12-54-969Z` off a name.
fn without_time(name: &str) -> Option<&str> {
    let (before, _) = name.rsplit_once('T')?;
    before.len().checked_sub("-2026-11-15".len()).map(|end| &before[..end])
}

fn node_major(node: &str) -> Option<u32> {
    let text = program::output(Command::new(node).arg("--version")).ok()?;
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// Report, and true if every check passed.
#[derive(Default)]
struct Table {
    n_scenarios: [usize; 2],
    n_checks: [usize; 2],
    failed: bool,
}

impl Table {
    /// One scenario. A warning is a `SHOULD` that does not hold, and counts like a failure.
    fn row(&mut self, scenario: &str, checks: Option<&[Check]>, not_ours: &[&str]) {
        let checks = checks.unwrap_or_default();
        let counted = |check: &&Check| check.counts() && !not_ours.contains(&check.id.as_str());
        let total = checks.iter().filter(counted).count();
        let wrong: Vec<&Check> =
            checks.iter().filter(counted).filter(|check| check.status != "SUCCESS").collect();
        // One that we said needs more than we ship, and does not: the list is out of date.
        let stale: Vec<&Check> = checks
            .iter()
            .filter(|check| check.status == "SUCCESS" && not_ours.contains(&check.id.as_str()))
            .collect();
        let passed = total - wrong.len();
        // No check at all is a scenario that was not run.
        let holds = total > 0 && wrong.is_empty() && stale.is_empty();
        let mark = if holds { "ok" } else { "FAILED" };
        println!("  {scenario:48} {passed:>3}/{total:<3} {mark}");
        for check in wrong {
            println!("      {}: {}", check.id, check.why);
        }
        for check in stale {
            println!("      {}: passes, and is listed as one that cannot", check.id);
        }
        self.failed |= !holds;
        self.n_scenarios[0] += usize::from(holds);
        self.n_scenarios[1] += 1;
        self.n_checks[0] += passed;
        self.n_checks[1] += total;
    }

    /// The end of one set.
    fn sum(&mut self) {
        let ([passed, all], [checks, checks_all]) = (self.n_scenarios, self.n_checks);
        println!("  {passed} of {all} scenarios, {checks} of {checks_all} checks");
        (self.n_scenarios, self.n_checks) = ([0; 2], [0; 2]);
    }
}

/// One scenario that the suite runs for a set and does not score: extensions, and what came later.
fn aside(scenario: &str, checks: &[Check]) {
    let total = checks.iter().filter(|check| check.counts()).count();
    let passed = checks.iter().filter(|check| check.status == "SUCCESS").count();
    println!("  {scenario:48} {passed:>3}/{total:<3} not scored");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_directory_names_its_scenario() {
        let name = "tools-list-2026-11-15T13-12-54-969Z";
        assert_eq!(without_time(name), Some("tools-list"));
        assert_eq!(without_time("T"), None);
    }
}
