//! Alert rules. Each rule is a function from a call and the calls before it to an optional alert message.

use ringfence_spec::{Risk, Status};

use super::FinishedCall;
use super::ring::{Ring, tool_hash};
use super::settings::AlertSettings;

/// An alert rule.
pub(crate) struct AlertRule {
    /// Stable, `snake_case`.
    pub(crate) name: &'static str,
    pub(crate) risk: Risk,
    /// Takes the call, the current time, the client's earlier calls and the thresholds.
    pub(crate) look: fn(&FinishedCall, u64, &Ring, &AlertSettings) -> Option<String>,
}

/// Every rule.
pub(crate) static ALL: [AlertRule; 9] = [
    AlertRule { name: "repeated_blocks", risk: Risk::High, look: repeated_blocks },
    AlertRule { name: "repeated_failures", risk: Risk::Medium, look: repeated_failures },
    AlertRule { name: "outlier_duration", risk: Risk::Low, look: outlier_duration },
    AlertRule { name: "duplicate_code", risk: Risk::Medium, look: duplicate_code },
    AlertRule { name: "large_read", risk: Risk::Medium, look: large_read },
    AlertRule { name: "many_reads", risk: Risk::Medium, look: many_reads },
    AlertRule { name: "traversal", risk: Risk::High, look: traversal },
    AlertRule { name: "many_violations", risk: Risk::High, look: many_violations },
    AlertRule { name: "misplaced_secret", risk: Risk::High, look: misplaced_secret },
];

fn repeated_blocks(
    seen: &FinishedCall,
    now_ms: u64,
    ring: &Ring,
    settings: &AlertSettings,
) -> Option<String> {
    if settings.n_blocked == 0 || seen.status != Status::Blocked {
        return None;
    }
    let past = ring.within(now_ms, settings.window_ms);
    let n = 1 + past.filter(|past| past.status == Status::Blocked).count();
    (n >= settings.n_blocked)
        .then(|| format!("{n} blocked calls within {} s", settings.window_ms / 1000))
}

/// Counts only failures the caller caused. Admission refusals and internal errors say nothing about the caller.
fn repeated_failures(
    seen: &FinishedCall,
    now_ms: u64,
    ring: &Ring,
    settings: &AlertSettings,
) -> Option<String> {
    let failed = |status| {
        matches!(status, Status::Error | Status::Timeout | Status::Memory | Status::Killed)
    };
    if settings.n_failed == 0 || !failed(seen.status) {
        return None;
    }
    let n = 1 + ring.within(now_ms, settings.window_ms).filter(|past| failed(past.status)).count();
    (n >= settings.n_failed)
        .then(|| format!("{n} failed calls within {} s", settings.window_ms / 1000))
}

/// Compares with earlier calls of the same tool by the same client, counting only calls that ran.
fn outlier_duration(
    seen: &FinishedCall,
    _: u64,
    ring: &Ring,
    settings: &AlertSettings,
) -> Option<String> {
    let ran = |status| !matches!(status, Status::Blocked | Status::Rejected | Status::Failed);
    if settings.duration_factor == 0
        || !ran(seen.status)
        || seen.duration_ms < settings.duration_ms_min
    {
        return None;
    }
    let tool = tool_hash(&seen.tool);
    let same = ring.all().filter(|past| past.tool == tool && ran(past.status));
    let (mut n, mut sum) = (0_u64, 0_u128);
    for past in same {
        n += 1;
        sum += u128::from(past.duration_ms);
    }
    let enough = n >= u64::try_from(settings.n_durations_min.max(1)).unwrap_or(u64::MAX);
    // duration >= factor * sum / n, without division.
    let outlier =
        u128::from(seen.duration_ms) * u128::from(n) >= u128::from(settings.duration_factor) * sum;
    (enough && outlier).then(|| {
        format!(
            "`{}` took {} ms; the mean of {n} before it is {} ms",
            seen.tool,
            seen.duration_ms,
            sum / u128::from(n)
        )
    })
}

fn duplicate_code(
    seen: &FinishedCall,
    now_ms: u64,
    ring: &Ring,
    settings: &AlertSettings,
) -> Option<String> {
    let code = seen.code_sha256.filter(|_| settings.n_duplicates > 0)?;
    let past = ring.within(now_ms, settings.window_ms);
    let n = 1 + past.filter(|past| past.code_sha256 == Some(code)).count();
    (n >= settings.n_duplicates)
        .then(|| format!("the same code ran {n} times within {} s", settings.window_ms / 1000))
}

fn large_read(seen: &FinishedCall, _: u64, _: &Ring, settings: &AlertSettings) -> Option<String> {
    (settings.bytes_read > 0 && seen.bytes_read >= settings.bytes_read)
        .then(|| format!("`{}` read {} bytes", seen.tool, seen.bytes_read))
}

/// Sums reads over the window, so that many small reads count as one large read.
fn many_reads(
    seen: &FinishedCall,
    now_ms: u64,
    ring: &Ring,
    settings: &AlertSettings,
) -> Option<String> {
    if settings.bytes_read_in_window == 0 || seen.bytes_read == 0 {
        return None;
    }
    let past = ring.within(now_ms, settings.window_ms).map(|past| past.bytes_read);
    let sum = past.fold(seen.bytes_read, u64::saturating_add);
    (sum >= settings.bytes_read_in_window)
        .then(|| format!("{sum} bytes read within {} s", settings.window_ms / 1000))
}

/// One is enough: no honest program sends a credential to a host that it is not for.
fn misplaced_secret(
    seen: &FinishedCall,
    _: u64,
    _: &Ring,
    settings: &AlertSettings,
) -> Option<String> {
    let (n, most) = (seen.n_misplaced_secrets, settings.n_misplaced_secrets);
    (most > 0 && n >= most)
        .then(|| format!("`{}` sent the placeholder of a secret elsewhere {n} times", seen.tool))
}

fn traversal(
    seen: &FinishedCall,
    now_ms: u64,
    ring: &Ring,
    settings: &AlertSettings,
) -> Option<String> {
    if settings.n_traversals == 0 || !seen.traversal {
        return None;
    }
    let n = 1 + ring.within(now_ms, settings.window_ms).filter(|past| past.traversal).count();
    (n >= settings.n_traversals)
        .then(|| format!("{n} paths that leave their place within {} s", settings.window_ms / 1000))
}

fn many_violations(
    seen: &FinishedCall,
    _: u64,
    _: &Ring,
    settings: &AlertSettings,
) -> Option<String> {
    (settings.n_violations > 0 && seen.n_violations > settings.n_violations)
        .then(|| format!("{} violations in one run of `{}`", seen.n_violations, seen.tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_row_in_the_document() {
        let document = include_str!("../../../../docs/engine.md");
        let rows = document.lines().filter(|line| line.starts_with("| `")).collect::<Vec<_>>();
        for AlertRule { name, risk, .. } in &ALL {
            let row = format!("| `{name}` | {risk} |");
            assert!(rows.iter().any(|line| line.starts_with(&row)), "{row}");
        }
    }
}
