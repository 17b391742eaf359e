//! The wish that a run should end, as a descriptor that a poll sees.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_spec::Problem;
use rustix::pipe::PipeFlags;

/// Whoever holds this wants the run to go on. Dropping it cancels.
#[derive(Debug)]
pub struct Wish {
    _held: OwnedFd,
}

/// The run's side.
#[derive(Debug)]
pub struct Cancel {
    seen: OwnedFd,
}

impl AsFd for Cancel {
    /// Readable once nobody wants the run any more.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.seen.as_fd()
    }
}

/// Both sides.
pub fn pair() -> Result<(Wish, Cancel), Problem> {
    let (seen, held) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|e| Problem::internal("cancel", "cannot make a way to cancel").cause(e))?;
    Ok((Wish { _held: held }, Cancel { seen }))
}
