//! A program that stays open and is asked for one round at a time: a line in, a line out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Ends, and is waited for, when it is dropped.
pub(super) struct Asked {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Asked {
    pub(super) fn start(command: &mut Command) -> std::io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let to = child.stdin.take();
        let from = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, to, from: BufReader::new(from) })
    }

    /// Returns its next line, without a request.
    pub(super) fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// One round.
    pub(super) fn ask(&mut self) -> std::io::Result<String> {
        if let Some(to) = &mut self.to {
            to.write_all(b"\n")?;
        }
        self.line()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // It ends when nothing more can come.
        self.to = None;
        let _ = self.child.wait();
    }
}
