//! The wish that something should end: a run by a descriptor that a poll sees, a search by a flag.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_spec::Problem;
use rustix::pipe::PipeFlags;

/// Whoever holds this wants the run to go on. Dropping it cancels.
#[derive(Debug)]
pub struct CancelOnDrop {
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
pub fn pair() -> Result<(CancelOnDrop, Cancel), Problem> {
    let (seen, held) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|e| Problem::internal("cancel", "cannot make a way to cancel").cause(e))?;
    Ok((CancelOnDrop { _held: held }, Cancel { seen }))
}

/// Sets a flag when dropped, for work that looks at it now and then.
#[derive(Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Set once nobody waits for the work any more.
    pub fn seen(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
