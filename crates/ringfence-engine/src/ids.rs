//! Names of runs.

use ringfence_spec::{Problem, RunId};

/// An id nobody can guess.
pub fn fresh_id() -> Result<RunId, Problem> {
    let mut random = [0u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Problem::internal("randomness", "no randomness for a run id").cause(e))?;
    Ok(RunId::from_random(random))
}

/// The same, and where there is no randomness the id of nobody: an answer without a run still has one.
pub fn some_id() -> RunId {
    fresh_id().unwrap_or(RunId::from_random([0; 16]))
}
