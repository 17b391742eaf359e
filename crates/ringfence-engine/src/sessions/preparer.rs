//! Thread that forks the process of a session's next cell while the session is idle, so that no cell waits for it. Starts
//! with the first cell, ends with the engine.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_spec::{Code, Problem};

use super::Session;

/// Time after a cell in which its answer leaves; the fork would take a processor from it.
const AFTER_ANSWER: Duration = Duration::from_millis(1);

/// Sessions that wait for their fork; with more, a cell forks its process itself.
const WAITING_MAX: usize = 64;

/// Handle of the thread. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Preparer {
    idle: Option<mpsc::SyncSender<(Arc<Session>, Instant)>>,
    thread: Option<JoinHandle<()>>,
}

impl Preparer {
    pub(crate) fn start() -> Result<Self, Problem> {
        let (idle, due) = mpsc::sync_channel::<(Arc<Session>, Instant)>(WAITING_MAX);
        let work = move || {
            while let Ok((session, since)) = due.recv() {
                std::thread::sleep(AFTER_ANSWER.saturating_sub(since.elapsed()));
                // A panic is the session's: its next cell forks anew. The hook has printed it.
                let prepare = std::panic::AssertUnwindSafe(|| session.prepare());
                let _ = std::panic::catch_unwind(prepare);
            }
        };
        let thread = std::thread::Builder::new().name("ringfence-cells".to_owned()).spawn(work);
        let thread = thread.map_err(|e| {
            Problem::internal(Code::Threads, "cannot start a thread for sessions").cause(e)
        })?;
        Ok(Self { idle: Some(idle), thread: Some(thread) })
    }

    /// Notes that a cell of the session has ended.
    pub(crate) fn note(&self, session: &Arc<Session>) {
        let _ = self.idle.as_ref().map(|idle| idle.try_send((Arc::clone(session), Instant::now())));
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.idle = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Session {
    /// Forks the process of the next cell, unless a cell runs.
    fn prepare(&self) {
        self.preparing.store(true, Ordering::SeqCst);
        if let Ok(mut live) = self.live.try_lock()
            && !self.closed.load(Ordering::SeqCst)
            && let Some(live) = &mut *live
        {
            live.prepare();
        }
        self.preparing.store(false, Ordering::SeqCst);
    }
}
