//! SIGKILL for ringfence itself at random moments of its start, then one clean run: it sweeps, and nothing is left.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::CannotTry;
use crate::random::Random;
use crate::soak::hostile::{self, Hostile};
use crate::soak::world::World;
use crate::soak::{Findings, SoakTier, leftovers};

/// A start takes a few milliseconds, and after 20 a janitor is there: this covers before, between and after.
const MOMENT_US_MAX: u64 = 25_000;

/// A sweep leaves groups younger than two seconds alone, because their maker may be about to enter them.
const YOUTH: Duration = Duration::from_millis(2_200);

/// Kills `n_runs` supervisors, one after the other.
pub(crate) fn soak(world: &World, n_runs: u32, seed: u64) -> Result<Findings, CannotTry> {
    let mut moments = Random::new(seed);
    let programs = programs(world.tier());
    let mut n_reaped = 0;
    for i in 0..n_runs {
        let hostile = programs[i as usize % programs.len()];
        let mut child = world
            .run(&["--timeout", "60s"], &hostile.argv(world.mark()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("cannot start ringfence: {e}"))?;
        std::thread::sleep(Duration::from_micros(moments.next() % MOMENT_US_MAX));
        child.kill().map_err(|e| format!("cannot kill ringfence: {e}"))?;
        child.wait().map_err(|e| format!("cannot wait for ringfence: {e}"))?;
        n_reaped += leftovers::reap();
        if (i + 1).is_multiple_of(100) {
            eprintln!("soak: {} of {n_runs}", i + 1);
        }
    }
    // The runs die with their supervisors, and nothing else may be needed for that.
    n_reaped += leftovers::settle(world);
    std::thread::sleep(YOUTH);
    world.check_tier()?;
    n_reaped += leftovers::settle(world);
    let table = format!(
        "supervisors killed  {n_runs}\nseed                {seed}\nprocesses reaped    {n_reaped}\n\n"
    );
    let report = json!({
        "soak": "kill-supervisor",
        "runs": n_runs,
        "seed": seed,
        "processes_reaped": n_reaped,
    });
    Ok(Findings { report, table, complaints: Vec::new() })
}

/// Without a pid namespace what a program starts can survive its supervisor: a gap each such outcome names, so not tried.
fn programs(tier: SoakTier) -> Vec<Hostile> {
    match tier {
        SoakTier::Namespaces => hostile::ALL.to_vec(),
        SoakTier::Landlock => vec![hostile::ALONE],
    }
}
