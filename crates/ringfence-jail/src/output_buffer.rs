//! The output so far of a running program, readable before it ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::stdio::keep_last;

/// Bytes kept of each stream: the last ones.
const TAIL_BYTES: usize = 16 << 10;

/// Written by the thread that runs the program, readable by any other. Clones share the buffer.
#[derive(Clone, Debug, Default)]
pub struct OutputBuffer(Arc<Mutex<OutputSnapshot>>);

/// The end of the output so far.
#[derive(Clone, Debug, Default)]
pub struct OutputSnapshot {
    /// Standard output.
    pub stdout: Tail,
    /// Standard error.
    pub stderr: Tail,
    /// The program's last progress note; untrusted text.
    pub note: Option<String>,
}

/// The end of a stream.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// Its last bytes.
    pub bytes: VecDeque<u8>,
    /// Number of bytes written in all.
    pub total_bytes: u64,
}

impl OutputBuffer {
    /// A copy of the current state.
    pub fn read(&self) -> OutputSnapshot {
        self.lock().clone()
    }

    /// Adds to standard output.
    pub fn add_stdout(&self, bytes: &[u8]) {
        self.lock().stdout.push(bytes);
    }

    /// Adds to standard error.
    pub fn add_stderr(&self, bytes: &[u8]) {
        self.lock().stderr.push(bytes);
    }

    /// Replaces the note.
    pub fn set_note(&self, note: String) {
        self.lock().note = Some(note);
    }

    fn lock(&self) -> MutexGuard<'_, OutputSnapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        keep_last(&mut self.bytes, bytes, TAIL_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_all_are_counted() {
        let output_buffer = OutputBuffer::default();
        output_buffer.add_stdout(b"first");
        output_buffer.add_stdout(&vec![b'x'; 3 * TAIL_BYTES]);
        output_buffer.add_stdout(b"last");
        let stdout = output_buffer.read().stdout;
        assert_eq!(stdout.bytes.len(), TAIL_BYTES);
        assert_eq!(stdout.total_bytes, 5 + 3 * TAIL_BYTES as u64 + 4);
        assert!(stdout.bytes.into_iter().collect::<Vec<_>>().ends_with(b"xlast"));
    }
}
