//! Thread that ends expired sessions and the REPLs of idle ones. Starts with the first session, ends with the engine.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use ringfence_spec::{Code, Problem};

use crate::call::EngineState;

/// Interval between sweeps.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// Handle of the thread. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Sweeper {
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    pub(crate) fn start(state: Weak<EngineState>) -> Result<Self, Problem> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let ending = Arc::clone(&end);
        let work = move || {
            let (ended, told) = &*ending;
            loop {
                let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = told.wait_timeout_while(ended, SWEEP_EVERY, |ended| !*ended);
                let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
                if *ended {
                    return;
                }
                drop(ended);
                let Some(state) = state.upgrade() else { return };
                // A failed sweep is tried again later, also after a panic, whose hook has printed the cause.
                let swept =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| state.sweep()));
                if let Ok(Err(problem)) = swept {
                    tracing::warn!("cannot end expired sessions: {problem}");
                }
            }
        };
        let thread = std::thread::Builder::new().name("ringfence-sweep".to_owned()).spawn(work);
        let thread = thread
            .map_err(|e| Problem::internal(Code::Threads, "cannot start the sweeper").cause(e))?;
        Ok(Self { end, thread: Some(thread) })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        let (ended, told) = &*self.end;
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.notify_all();
        // If every other handle is dropped during a sweep, this runs on the sweeper thread, which cannot join itself.
        if let Some(thread) =
            self.thread.take().filter(|t| t.thread().id() != std::thread::current().id())
        {
            let _ = thread.join();
        }
    }
}
