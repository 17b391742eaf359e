//! A server under fuzz, seen from outside: whether it lives, what it says on stderr, what it takes, what it leaves.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::{CannotTry, process, soak};

/// Memory limit of a server: a few messages of 16 MiB on their way, and results of runs (32 MiB a client).
const MEMORY_KIB_MAX: u64 = 400 << 10;

/// Limit of its growth from the second to the last quarter of its life, besides a quarter of it: an allocator keeps
/// what a long message took.
const SLACK_KIB: u64 = 32 << 10;

/// The same for descriptors: connections and runs that were going on at the one moment and not at the other.
const SLACK_DESCRIPTORS: u64 = 200;

/// Fewer checks tell nothing of growth.
const CHECKS_MIN: usize = 16;

/// The kernel ends processes a little after it said so; what is there after this stays.
const SETTLE: Duration = Duration::from_secs(5);

/// Lines of stderr kept.
const LINES_MAX: usize = 50;

/// A server; killed with this value.
pub(super) struct MonitoredServer {
    pub(super) child: Child,
    lines: Receiver<Vec<u8>>,
    said: Vec<String>,
    memory_kib: Vec<u64>,
    descriptors: Vec<u64>,
}

impl MonitoredServer {
    pub(super) fn start(command: &mut Command) -> Result<Self, CannotTry> {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start the server: {e}"))?;
        let lines = read_lines(child.stderr.take().ok_or("no stderr")?);
        Ok(Self { child, lines, said: vec![], memory_kib: vec![], descriptors: vec![] })
    }

    /// Waits for a line of stderr with a word in it, and returns what is behind the word.
    pub(super) fn says(&mut self, word: &str, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = text(&self.lines.recv_timeout(left).ok()?);
            if let Some((_, behind)) = line.split_once(word) {
                return Some(behind.trim().to_owned());
            }
            self.said.push(line);
        }
    }

    /// Returns an error if it died, panicked or exceeds its limits.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.lives()?;
        let pid = self.child.id();
        let memory_kib = process::status_kib(pid, "VmRSS").ok_or("its memory cannot be read")?;
        if memory_kib > MEMORY_KIB_MAX {
            return Err(format!("it holds {memory_kib} KiB, more than {MEMORY_KIB_MAX}"));
        }
        self.memory_kib.push(memory_kib);
        self.descriptors.push(process::n_descriptors(pid).try_into().unwrap_or(u64::MAX));
        Ok(())
    }

    /// Returns an error if it died or panicked.
    pub(super) fn lives(&mut self) -> Result<(), String> {
        self.listen()?;
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(&format!("it ended by itself: {status}"))),
            Err(e) => Err(format!("cannot look after it: {e}")),
        }
    }

    /// Waits for its end, which it was asked for: with the exit code, and nothing left of it.
    pub(super) fn end(&mut self, code: i32, patience: Duration) -> Result<(), String> {
        let status = process::wait(&mut self.child, patience)
            .ok_or_else(|| format!("it is still there {patience:?} after it was told to end"))?;
        if status.code() != Some(code) {
            return Err(self.ended(&format!("it ended with {status}, not {code}")));
        }
        self.listen()?;
        grown("KiB", &self.memory_kib, SLACK_KIB)?;
        grown("descriptors", &self.descriptors, SLACK_DESCRIPTORS)?;
        left()
    }

    /// Its peak memory, in KiB.
    pub(super) fn memory_kib_max(&self) -> u64 {
        self.memory_kib.iter().copied().max().unwrap_or(0)
    }

    /// Reads what it said so far.
    fn listen(&mut self) -> Result<(), String> {
        self.said.extend(self.lines.try_iter().map(|line| text(&line)));
        let excess = self.said.len().saturating_sub(LINES_MAX);
        self.said.drain(..excess);
        match self.said.iter().find(|line| line.contains("panicked at")) {
            Some(_) => Err(self.ended("it panicked")),
            None => Ok(()),
        }
    }

    fn ended(&mut self, why: &str) -> String {
        // The last words may still be on their way.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200)) {
            self.said.push(text(&line));
        }
        format!("{why}: {}", self.said.join("\n"))
    }
}

impl Drop for MonitoredServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines on a thread of its own, so that the writer never blocks.
pub(super) fn read_lines(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// Returns an error if the last quarter holds much more than the second. The first is for warming up.
fn grown(what: &str, samples: &[u64], slack: u64) -> Result<(), String> {
    if samples.len() < CHECKS_MIN {
        return Ok(());
    }
    let middle_of = |quarter: usize| {
        let n = samples.len() / 4;
        let mut some = samples[quarter * n..(quarter + 1) * n].to_vec();
        some.sort_unstable();
        some[some.len() / 2]
    };
    let (early, late) = (middle_of(1), middle_of(3));
    if late > early + early / 4 + slack {
        return Err(format!("it grows: from {early} to {late} {what} over {samples:?}"));
    }
    Ok(())
}

/// Returns an error if a process of it is left. This process is a subreaper, so orphans are below it.
fn left() -> Result<(), String> {
    let deadline = Instant::now() + SETTLE;
    loop {
        soak::reap();
        let left = soak::below(std::process::id());
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let names: Vec<_> =
                left.iter().map(|(pid, .., name)| format!("{pid} ({name})")).collect();
            return Err(format!("{} processes are left: {}", names.len(), names.join(", ")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::grown;

    #[test]
    fn growth_is_told_from_noise() {
        let rising: Vec<u64> = (0..40).map(|n| 100_000 + n * 10_000).collect();
        assert!(grown("KiB", &rising, 1000).is_err());
        assert!(grown("KiB", &rising[..8], 1000).is_ok());
        let steady: Vec<u64> = (0..40).map(|n| 100_000 + (n % 7) * 3000).collect();
        assert!(grown("KiB", &steady, 1000).is_ok());
    }
}
