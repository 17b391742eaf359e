//! Counters and histograms, in the `OpenMetrics` text format that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::admission::{BreakerState, Counts as Gate};

/// Upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0];

/// Counters of one engine.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    calls: Mutex<BTreeMap<Key, Series>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    tool: &'static str,
    status: &'static str,
}

#[derive(Clone, Copy, Debug, Default)]
struct Series {
    /// Calls up to each bucket's bound; the last bucket counts all calls.
    buckets: [u64; BUCKETS.len() + 1],
    seconds: f64,
}

/// Current values, read at each scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) gate: Gate,
    pub(crate) own_breaker: Option<BreakerState>,
    pub(crate) pool: ringfence_python::Counts,
    pub(crate) speedups: Vec<String>,
    pub(crate) sessions_open: usize,
}

impl Metrics {
    /// Counts a finished call.
    pub(crate) fn count(&self, tool: &'static str, status: &'static str, took: Duration) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let series = calls.entry(Key { tool, status }).or_default();
        let seconds = took.as_secs_f64();
        series.seconds += seconds;
        let first = BUCKETS.iter().position(|end| seconds <= *end).unwrap_or(BUCKETS.len());
        for bucket in &mut series.buckets[first..] {
            *bucket += 1;
        }
    }

    /// Renders all metrics.
    pub(crate) fn text(&self, now: &Gauges) -> String {
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write(&mut out, now);
        out
    }

    fn write(&self, out: &mut String, now: &Gauges) -> std::fmt::Result {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        writeln!(out, "# HELP ringfence_calls Calls by tool and how they ended.")?;
        writeln!(out, "# TYPE ringfence_calls counter")?;
        for (Key { tool, status }, series) in &calls {
            let n = series.buckets[BUCKETS.len()];
            writeln!(out, "ringfence_calls_total{{tool=\"{tool}\",status=\"{status}\"}} {n}")?;
        }
        writeln!(out, "# HELP ringfence_call_seconds How long calls took.")?;
        writeln!(out, "# TYPE ringfence_call_seconds histogram")?;
        for (Key { tool, status }, series) in &calls {
            let labels = format!("tool=\"{tool}\",status=\"{status}\"");
            for (end, n) in BUCKETS.iter().zip(&series.buckets) {
                writeln!(out, "ringfence_call_seconds_bucket{{{labels},le=\"{end}\"}} {n}")?;
            }
            let n = series.buckets[BUCKETS.len()];
            writeln!(out, "ringfence_call_seconds_bucket{{{labels},le=\"+Inf\"}} {n}")?;
            writeln!(out, "ringfence_call_seconds_sum{{{labels}}} {}", series.seconds)?;
            writeln!(out, "ringfence_call_seconds_count{{{labels}}} {n}")?;
        }
        let gate = &now.gate;
        let own = now.own_breaker.map_or(0, |state| match state {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open => 2,
        });
        let counters = [
            ("ringfence_admitted", "Calls admitted.", gate.admitted),
            ("ringfence_rejected", "Calls rejected.", gate.rejected),
            ("ringfence_pool_hits", "Python runs served by a warm worker.", now.pool.hits),
            ("ringfence_pool_misses", "Python runs that waited for a worker.", now.pool.misses),
            ("ringfence_workers_made", "Workers started.", now.pool.made),
            ("ringfence_zygotes", "Zygotes started.", now.pool.zygotes),
        ];
        for (name, help, value) in counters {
            writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name}_total {value}")?;
        }
        let gauges = [
            ("ringfence_running", "Calls running now.", gate.running),
            ("ringfence_queued", "Calls waiting now.", gate.queued),
            (
                "ringfence_breakers_open",
                "Clients with an open circuit breaker.",
                gate.breakers_open,
            ),
            (
                "ringfence_own_breaker",
                "The service's own breaker: 0 closed, 1 half-open, 2 open.",
                own,
            ),
            ("ringfence_workers_waiting", "Warm workers waiting.", now.pool.waiting),
            ("ringfence_zygotes_up", "Zygotes that make workers now.", now.pool.zygotes_up),
            ("ringfence_sessions_open", "Sessions open in this process.", now.sessions_open),
        ];
        for (name, help, value) in gauges {
            writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}")?;
        }
        let name = "ringfence_worker_speedup";
        writeln!(out, "# HELP {name} Speed-ups in use, after their checks.\n# TYPE {name} gauge")?;
        for part in &now.speedups {
            writeln!(out, "{name}{{part=\"{part}\"}} 1")?;
        }
        writeln!(out, "# EOF")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_every_line_is_well_formed() {
        let metrics = Metrics::default();
        for ms in [1, 3, 40, 10_000] {
            metrics.count("execute_code", "ok", Duration::from_millis(ms));
        }
        metrics.count("run_command", "timeout", Duration::from_secs(1000));
        let text = metrics.text(&Gauges::default());
        let at = |le: &str| {
            let start = format!(
                "ringfence_call_seconds_bucket{{tool=\"execute_code\",status=\"ok\",le=\"{le}\"}} "
            );
            text.lines().find_map(|line| line.strip_prefix(start.as_str())?.parse::<u64>().ok())
        };
        assert_eq!(
            [at("0.001"), at("0.005"), at("0.05"), at("5"), at("+Inf")],
            [1, 2, 3, 3, 4].map(Some)
        );
        assert!(
            text.contains("ringfence_calls_total{tool=\"run_command\",status=\"timeout\"} 1\n")
        );
        assert!(text.ends_with("# EOF\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok() && name.starts_with("ringfence_"), "{line}");
        }
    }
}
