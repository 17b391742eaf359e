//! Run ids.

use ringfence_spec::{Code, Problem, RunId};

/// Generates an unguessable id.
pub fn fresh_id() -> Result<RunId, Problem> {
    let mut random = [0u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Problem::internal(Code::Randomness, "no randomness for a run id").cause(e))?;
    Ok(RunId::from_random(random))
}

/// Generates an id, or the zero id if there is no randomness: a result without a run still needs one.
pub fn some_id() -> RunId {
    fresh_id().unwrap_or(RunId::from_random([0; 16]))
}
