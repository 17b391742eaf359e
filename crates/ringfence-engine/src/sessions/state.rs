//! State and id of a session.

use ringfence_spec::Problem;
use serde::{Deserialize, Serialize};

use crate::files::FileAccess;

/// A session's id: 128 random bits as hexadecimal digits. A client that knows it and owns the session may use it. Made from a
/// client's text it may be no session's: every lookup then answers as for one that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

/// Hexadecimal digits of an id.
const ID_CHARS: usize = 32;

impl SessionId {
    /// Generates an id.
    pub fn fresh() -> Result<Self, Problem> {
        Ok(Self(crate::ids::fresh_id()?.to_string()))
    }

    /// Returns true if this can be a session's id; only such a text becomes part of a path.
    pub(crate) fn is_well_formed(&self) -> bool {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        self.0.len() == ID_CHARS && self.0.bytes().all(hex)
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for SessionId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Settings of new sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    /// Lifetime of a session, used or not.
    pub ttl_ms: u64,
    /// Idle time after which a session's processes are ended.
    pub idle_ms: u64,
    /// Disk quota of a session's files.
    pub quota_bytes: u64,
    /// Maximum sessions of one owner.
    pub per_owner_max: usize,
    /// Maximum sessions of one owner whose variables are kept: each is an interpreter in memory. For another one, the one that
    /// was used longest ago goes to rest.
    pub live_per_owner_max: usize,
    /// The same of all owners together. One of the owner with the most of them goes to rest.
    pub live_max: usize,
    /// Searches per day.
    pub searches_per_day: u32,
    /// Index jobs per day.
    pub index_jobs_per_day: u32,
}

impl Default for SessionSettings {
    fn default() -> Self {
        const HOUR_MS: u64 = 3_600_000;
        Self {
            ttl_ms: 24 * HOUR_MS,
            idle_ms: 2 * HOUR_MS,
            quota_bytes: 10 << 30,
            per_owner_max: 100,
            live_per_owner_max: 16,
            live_max: 64,
            searches_per_day: 500,
            index_jobs_per_day: 5,
        }
    }
}

/// Options of a new session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Access that runs and clients have to its files.
    pub access: FileAccess,
}

/// State of a session that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionState {
    /// The session's id.
    pub id: SessionId,
    /// The session's owner.
    pub owner: String,
    /// Creation time.
    pub created_ms: u64,
    /// Time of last use.
    pub used_ms: u64,
    /// Expiry time.
    pub expires_ms: u64,
    /// Disk quota of its files.
    pub quota_bytes: u64,
    /// True if its files may not be changed.
    pub read_only: bool,
    /// Cells run so far.
    pub n_cells: u64,
    /// The session it was forked from.
    pub forked_from: Option<SessionId>,
    /// Use of the daily quotas.
    pub today: Today,
}

/// Use of the daily quotas on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Today {
    /// Days since the epoch.
    pub day: u64,
    /// Searches.
    pub searches: u32,
    /// Index jobs.
    pub index_jobs: u32,
}

/// An operation with a daily quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daily {
    /// A search.
    Search,
    /// An index job.
    IndexJob,
}

impl SessionState {
    /// Takes one from the daily quota. The error is the time in milliseconds until the next day.
    pub fn take_daily(
        &mut self,
        what: Daily,
        settings: &SessionSettings,
        now_ms: u64,
    ) -> Result<(), u64> {
        const DAY_MS: u64 = 86_400_000;
        let day = now_ms / DAY_MS;
        if self.today.day != day {
            self.today = Today { day, ..Today::default() };
        }
        let (used, max) = match what {
            Daily::Search => (&mut self.today.searches, settings.searches_per_day),
            Daily::IndexJob => (&mut self.today.index_jobs, settings.index_jobs_per_day),
        };
        if *used >= max {
            return Err((day + 1) * DAY_MS - now_ms);
        }
        *used += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_is_an_id() {
        assert!(SessionId::from("0123456789abcdef".repeat(2)).is_well_formed());
        let wrong = [
            "",
            "../..",
            "0123",
            "0123456789ABCDEF0123456789ABCDEF",
            "g123456789abcdef0123456789abcdef",
        ];
        for text in
            wrong.iter().copied().chain([&*"0".repeat(33), "..%2f..%2f..%2f..%2f..%2f..%2f..1"])
        {
            assert!(!SessionId::from(text).is_well_formed(), "{text}");
        }
        assert_ne!(SessionId::fresh().unwrap(), SessionId::fresh().unwrap());
    }

    #[test]
    fn a_days_quota_ends_with_the_day() {
        let mut state = SessionState {
            id: SessionId::fresh().unwrap(),
            owner: String::new(),
            created_ms: 0,
            used_ms: 0,
            expires_ms: 0,
            quota_bytes: 0,
            read_only: false,
            n_cells: 0,
            forked_from: None,
            today: Today::default(),
        };
        let settings = SessionSettings { index_jobs_per_day: 2, ..SessionSettings::default() };
        assert_eq!(state.take_daily(Daily::IndexJob, &settings, 5), Ok(()));
        assert_eq!(state.take_daily(Daily::IndexJob, &settings, 6), Ok(()));
        assert_eq!(state.take_daily(Daily::IndexJob, &settings, 86_399_000), Err(1_000));
        assert_eq!(state.take_daily(Daily::Search, &settings, 86_399_000), Ok(()));
        assert_eq!(state.take_daily(Daily::IndexJob, &settings, 86_400_000), Ok(()));
    }
}
