//! Percentiles of measurements by nearest rank: each is a value that was measured.

use serde_json::{Value, json};

/// Percentiles; NaN if nothing was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Percentiles {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        // The smallest value that at least `percent` of all do not exceed.
        let rank = |percent: usize| {
            let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(at).copied().unwrap_or(f64::NAN)
        };
        Self { p50: rank(50), p95: rank(95), p99: rank(99), max: rank(100) }
    }

    /// Median, 99th percentile and maximum, rounded to tenths.
    pub(crate) fn json(&self) -> Value {
        let round = |ms: f64| (ms * 10.0).round() / 10.0;
        json!({ "p50": round(self.p50), "p99": round(self.p99), "max": round(self.max) })
    }
}

#[cfg(test)]
mod tests {
    use super::Percentiles;

    #[test]
    fn percentiles_are_values_of_the_nearest_rank() {
        let all = |values: &[f64]| {
            let Percentiles { p50, p95, p99, max } = Percentiles::of(values.iter().copied());
            format!("{p50} {p95} {p99} {max}")
        };
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(all(&hundred), "50 95 99 100");
        assert_eq!(all(&[3.0, 1.0, 2.0]), "2 3 3 3");
        assert_eq!(all(&[1.0, 2.0]), "1 2 2 2");
        assert_eq!(all(&[7.0]), "7 7 7 7");
        assert_eq!(all(&[]), "NaN NaN NaN NaN");
    }
}
