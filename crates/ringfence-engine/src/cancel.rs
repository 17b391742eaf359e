//! Cancellation: of a run by a descriptor that poll(2) watches, of a search by a flag.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_spec::{Code, Problem};
use rustix::pipe::PipeFlags;

/// Cancels the run when dropped.
#[derive(Debug)]
pub struct CancelOnDrop {
    _held: OwnedFd,
}

/// The run's end of the pair.
#[derive(Debug)]
pub struct Cancel {
    seen: OwnedFd,
}

impl AsFd for Cancel {
    /// Readable once the run is cancelled.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.seen.as_fd()
    }
}

/// Creates both ends.
pub fn pair() -> Result<(CancelOnDrop, Cancel), Problem> {
    let (seen, held) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|e| Problem::internal(Code::Cancel, "cannot make a way to cancel").cause(e))?;
    Ok((CancelOnDrop { _held: held }, Cancel { seen }))
}

/// Sets a flag when dropped, for work that polls it.
#[derive(Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Returns the flag, which is set once this is dropped.
    pub fn seen(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
