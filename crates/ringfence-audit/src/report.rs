//! Statistics of a period: statuses, clients, tools, denials, durations.

use std::collections::BTreeMap;

use ringfence_spec::Problem;
use serde::Serialize;

use crate::columns::Kind;
use crate::entry::Details;
use crate::page::Filter;
use crate::reader::Reader;

/// Statistics of a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LedgerReport {
    /// Start of the period; null for the beginning of the ledger.
    pub since_ms: Option<i64>,
    /// End of the period; null for now.
    pub until_ms: Option<i64>,
    /// Runs and calls that ended.
    pub runs: u64,
    /// Runs and calls that started and have no end in the period.
    pub open: u64,
    /// By status.
    pub by_status: BTreeMap<String, u64>,
    /// By tool.
    pub by_tool: BTreeMap<String, u64>,
    /// By client.
    pub by_client: BTreeMap<String, u64>,
    /// By risk.
    pub by_risk: BTreeMap<String, u64>,
    /// Refusals by rule.
    pub denials_by_rule: BTreeMap<String, u64>,
    /// Alerts by rule.
    pub alerts_by_rule: BTreeMap<String, u64>,
    /// Durations of runs; null if none ended.
    pub durations: Option<Durations>,
    /// Ends whose body is expired or sealed: counted above, but not in durations and denials.
    pub without_body: u64,
}

/// Durations of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Durations {
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Maximum.
    pub max_ms: f64,
}

impl Reader {
    /// Computes the statistics of a period.
    pub fn report(
        &self,
        since_ms: Option<i64>,
        until_ms: Option<i64>,
    ) -> Result<LedgerReport, Problem> {
        let filter = Filter { since_ms, until_ms, ..Filter::default() };
        let mut report = LedgerReport { since_ms, until_ms, ..LedgerReport::default() };
        let mut times: Vec<f64> = Vec::new();
        let mut starts: u64 = 0;
        self.scan(&filter, |record| {
            let details = record.details.and_then(|d| serde_json::from_value::<Details>(d).ok());
            match record.kind {
                Some(kind) if kind.is_start() => starts += 1,
                Some(Kind::Alert) => {
                    let rule = details.and_then(|d| d.code).unwrap_or_else(|| "unknown".to_owned());
                    *report.alerts_by_rule.entry(rule).or_default() += 1;
                }
                Some(kind) if kind.is_end() => {
                    report.runs += 1;
                    let words = [
                        (&mut report.by_status, record.status.map(|word| word.word().to_owned())),
                        (&mut report.by_tool, record.tool),
                        (&mut report.by_client, record.client),
                        (&mut report.by_risk, record.risk.map(|word| word.word().to_owned())),
                    ];
                    for (counts, word) in words {
                        *counts.entry(word.unwrap_or_else(|| "none".to_owned())).or_default() += 1;
                    }
                    let Some(details) = details else {
                        report.without_body += 1;
                        return Ok(());
                    };
                    times.extend(details.wall_ms);
                    for violation in details.violations {
                        *report.denials_by_rule.entry(violation.rule).or_default() +=
                            violation.count.max(1);
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        report.open = starts.saturating_sub(report.runs);
        report.durations = durations(times);
        Ok(report)
    }
}

fn durations(mut times: Vec<f64>) -> Option<Durations> {
    times.sort_by(f64::total_cmp);
    let at = |hundredths: usize| times.get((times.len() * hundredths).div_ceil(100).max(1) - 1);
    Some(Durations { p50_ms: *at(50)?, p99_ms: *at(99)?, max_ms: *times.last()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let found = durations((1..=100).map(f64::from).collect()).unwrap();
        assert_eq!(found, Durations { p50_ms: 50.0, p99_ms: 99.0, max_ms: 100.0 });
        assert_eq!(durations(vec![]), None);
        let one = Durations { p50_ms: 7.0, p99_ms: 7.0, max_ms: 7.0 };
        assert_eq!(durations(vec![7.0]), Some(one));
    }
}
