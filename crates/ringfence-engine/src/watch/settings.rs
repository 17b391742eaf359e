//! Alert thresholds.

use serde::{Deserialize, Serialize};

/// Alert thresholds. A threshold of 0 turns its rule off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlertSettings {
    /// Window of the repetition rules.
    pub window_ms: u64,
    /// Quiet period of a rule for a client after an alert.
    pub quiet_ms: u64,
    /// Blocked calls in the window.
    pub n_blocked: usize,
    /// Calls in the window that ended in an error, by a limit or by a signal.
    pub n_failed: usize,
    /// Factor over the tool's mean duration that makes a call an outlier.
    pub duration_factor: u64,
    /// Calls of the same tool required before its mean is used.
    pub n_durations_min: usize,
    /// Durations below this are never outliers: ten times a very short mean is still short.
    pub duration_ms_min: u64,
    /// Runs of the same code in the window.
    pub n_duplicates: usize,
    /// Bytes read by one call.
    pub bytes_read: u64,
    /// Bytes read in the window.
    pub bytes_read_in_window: u64,
    /// Calls in the window with a path that tried to leave its root.
    pub n_traversals: usize,
    /// Violations allowed in one run; one more raises an alert.
    pub n_violations: u32,
    /// Connections of one run that carried a secret's placeholder to another host.
    pub n_misplaced_secrets: u32,
    /// Calls kept for each client.
    pub n_remembered_max: usize,
    /// Clients kept.
    pub n_clients_max: usize,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            window_ms: 5 * 60 * 1000,
            quiet_ms: 10 * 60 * 1000,
            n_blocked: 5,
            n_failed: 10,
            duration_factor: 10,
            n_durations_min: 20,
            duration_ms_min: 1000,
            n_duplicates: 20,
            bytes_read: 50 << 20,
            bytes_read_in_window: 500 << 20,
            n_traversals: 1,
            n_violations: 3,
            n_misplaced_secrets: 1,
            // 88 bytes each: 22 kB for a client, 22 MB for all.
            n_remembered_max: 256,
            n_clients_max: 1024,
        }
    }
}
