//! Many clients of one service, one of them hostile. The example `fair` of the engine measures; this judges.

use std::fmt::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::CannotTry;
use crate::soak::Findings;
use crate::soak::world::World;

/// Minimum of Jain's index of the honest clients' shares.
const JAIN_MIN: f64 = 0.95;

/// Limit of the 99th percentile of honest runs, in times of that without the hostile client.
const P99_RATIO_MAX: f64 = 2.0;

/// Limit of the difference of the service's memory between the last two quarters.
const MEMORY_RATIO_MAX: f64 = 1.05;

/// The part of honest runs at half of the capacity that may be refused, or as many as without the hostile client.
const REFUSED_MAX: f64 = 0.01;

/// Fewer runs tell nothing of a p99, nor of memory.
const RUNS_MIN: u32 = 5000;

/// Runs it and judges.
pub(crate) fn soak(world: &World, n_runs: u32, n_clients: u32) -> Result<Findings, CannotTry> {
    let data = world.state().join("data");
    let output = world
        .service(&data, &[&n_runs.to_string(), &n_clients.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start the service: {e}"))?;
    let figures: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("the service gave no figures ({}): {e}", output.status))?;
    let number = |path: &str| figures.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let jain = number("/share/jain");
    let p99 = [number("/waits_ms/without/p99"), number("/waits_ms/with/p99")];
    let memory = [number("/memory_kib/third"), number("/memory_kib/last")];
    let refused = [number("/waits_ms/refused/0"), number("/waits_ms/refused/1")];
    let mut complaints = Vec::new();
    let mut demand = |held: bool, what: String| {
        if !held {
            complaints.push(what);
        }
    };
    demand(jain >= JAIN_MIN, format!("Jain's index is {jain:.3}, less than {JAIN_MIN}"));
    // Where the host itself is too busy, some are refused without the hostile client, too.
    let bearable = refused[0].max(number("/waits_ms/with/runs") * REFUSED_MAX);
    demand(refused[1] <= bearable, format!("{} honest runs were refused", refused[1]));
    if n_runs >= RUNS_MIN {
        let ratio = p99[1] / p99[0];
        demand(ratio <= P99_RATIO_MAX, format!("p99 is {ratio:.2} times what it is without"));
        let ratio = memory[1] / memory[0];
        demand(ratio <= MEMORY_RATIO_MAX, format!("memory grew {ratio:.3} times in the last half"));
    }
    let mut table = String::new();
    let mut row = |name: &str, text: String| {
        let _ = writeln!(table, "{name:<40} {text}");
    };
    row("capacity, runs/s", format!("{:.0}", number("/capacity_per_s")));
    row("Jain's index of the honest", format!("{jain:.4}"));
    row(
        "runs of the least and the most served",
        format!("{} {}", number("/share/least"), number("/share/most")),
    );
    row(
        "p50, p99 without the hostile, ms",
        format!("{:.1} {:.1}", number("/waits_ms/without/p50"), p99[0]),
    );
    row(
        "p50, p99 with the hostile, ms",
        format!("{:.1} {:.1}", number("/waits_ms/with/p50"), p99[1]),
    );
    row("honest runs refused, without and with", format!("{} {}", refused[0], refused[1]));
    row(
        "calls of the hostile: asked, ran",
        format!("{} {}", number("/waits_ms/hostile/asked"), number("/waits_ms/hostile/ran")),
    );
    row("memory, third and last quarter, KiB", format!("{:.0} {:.0}", memory[0], memory[1]));
    table.push('\n');
    let report = json!({ "soak": "fair", "runs": n_runs, "figures": figures });
    Ok(Findings { report, table, complaints })
}
