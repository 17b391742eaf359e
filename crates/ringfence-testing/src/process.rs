//! Processes that tests start: killed when their time is over, and with the test.

use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::skip::{say, test_name};
use crate::time_limit::{after, limit};

/// Time for pipes to close after the process that wrote to them was killed; others may hold them.
const PIPES_MAX: Duration = Duration::from_secs(10);

/// Commands with a time limit. The methods are those of [`Command`].
pub trait BoundedCommand {
    /// Starts it.
    fn bounded_spawn(&mut self) -> std::io::Result<Running>;

    /// Starts it with another limit than [`limit`].
    fn bounded_spawn_within(&mut self, limit: Duration) -> std::io::Result<Running>;

    /// Runs it to its end and returns what it wrote. Unlike [`Command::output`] it sets stdout and stderr even if they were
    /// set before, and leaves stdin as it is.
    fn bounded_output(&mut self) -> std::io::Result<Output>;

    /// The same with another limit.
    fn bounded_output_within(&mut self, limit: Duration) -> std::io::Result<Output>;

    /// Runs it to its end.
    fn bounded_status(&mut self) -> std::io::Result<ExitStatus>;

    /// The same with another limit.
    fn bounded_status_within(&mut self, limit: Duration) -> std::io::Result<ExitStatus>;
}

impl BoundedCommand for Command {
    fn bounded_spawn(&mut self) -> std::io::Result<Running> {
        self.bounded_spawn_within(limit())
    }

    fn bounded_spawn_within(&mut self, limit: Duration) -> std::io::Result<Running> {
        let shown = format!("{:?}", self.get_program());
        Running::new(self.spawn()?, shown, limit)
    }

    fn bounded_output(&mut self) -> std::io::Result<Output> {
        self.bounded_output_within(limit())
    }

    fn bounded_output_within(&mut self, limit: Duration) -> std::io::Result<Output> {
        self.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.bounded_spawn_within(limit)?.wait_with_output()
    }

    fn bounded_status(&mut self) -> std::io::Result<ExitStatus> {
        self.bounded_status_within(limit())
    }

    fn bounded_status_within(&mut self, limit: Duration) -> std::io::Result<ExitStatus> {
        let mut running = self.bounded_spawn_within(limit)?;
        let status = running.wait()?;
        running.check();
        Ok(status)
    }
}

/// A process with a time limit: past it the process is killed, and every read and wait on it ends. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    program: String,
    deadline: Instant,
    is_late: Arc<AtomicBool>,
    /// Closed by dropping, which ends the watch.
    _watch: Sender<()>,
}

impl Running {
    fn new(child: Child, program: String, limit: Duration) -> std::io::Result<Self> {
        let process: OwnedFd =
            rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let is_late = Arc::new(AtomicBool::new(false));
        let (late, test, shown) = (Arc::clone(&is_late), test_name(), program.clone());
        let watch = after(limit, move || {
            // Before the signal: the test may see the end of the process at once.
            late.store(true, Ordering::SeqCst);
            // By a descriptor: were the process gone, its number could be another's.
            if rustix::process::pidfd_send_signal(&process, Signal::KILL).is_err() {
                late.store(false, Ordering::SeqCst);
            } else {
                say(&format!("TIMED OUT {test}: {shown} was killed after {limit:?}"));
            }
        });
        let deadline = Instant::now() + limit;
        Ok(Self { child, program, deadline, is_late, _watch: watch })
    }

    /// Closes its stdin, waits for its end and returns what it wrote.
    pub fn wait_with_output(mut self) -> std::io::Result<Output> {
        drop(self.stdin.take());
        let stdout = self.stdout.take().map(read);
        let stderr = self.stderr.take().map(read);
        let [stdout, stderr] = [stdout, stderr].map(|reading| self.written(reading));
        let status = self.wait()?;
        self.check();
        Ok(Output { status, stdout, stderr })
    }

    /// Panics if it was killed because its time was over.
    fn check(&self) {
        assert!(!self.is_late.load(Ordering::SeqCst), "{} was killed: too slow", self.program);
    }

    fn written(&self, reading: Option<Receiver<Vec<u8>>>) -> Vec<u8> {
        let left = self.deadline.saturating_duration_since(Instant::now()) + PIPES_MAX;
        reading.map_or_else(Vec::new, |reading| {
            let written = reading.recv_timeout(left);
            written.unwrap_or_else(|_| panic!("{} left its output open to others", self.program))
        })
    }
}

/// Reads to the end, on a thread of its own.
fn read(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (tell, reading) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = tell.send(bytes);
    });
    reading
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_end_is_killed_in_time() {
        let mut command = Command::new("sleep");
        let mut slow = command.arg("987").bounded_spawn_within(Duration::from_millis(50)).unwrap();
        let status = slow.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| slow.check()));
        assert!(checked.is_err());
    }

    #[test]
    fn output_comes_back_whole() {
        let mut command = Command::new("sh");
        let output = command.args(["-c", "seq 100000; echo wrong >&2; exit 3"]).bounded_output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(output.stdout.ends_with(b"\n100000\n") && output.stderr == b"wrong\n");
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let running = Command::new("sleep").arg("987").bounded_spawn().unwrap();
        let process = format!("/proc/{}/stat", running.id());
        drop(running);
        assert!(!std::path::Path::new(&process).exists());
    }
}
