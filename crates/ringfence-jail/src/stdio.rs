//! The program's stdin, stdout and stderr. Pipes pass as they are; a file, socket or device of the caller's never
//! does, because whoever holds such a descriptor can chmod, reconnect or reopen what is behind it: we copy instead.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_spec::Problem;
use ringfence_sys::{CallError, Named};
use rustix::event::PollFlags;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

/// Bytes moved at once. A pipe holds 64 KiB.
const CHUNK: usize = 64 << 10;

/// `PIPEFS_MAGIC`: where pipes without a name live.
const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;

/// What to do with the program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdioMode {
    /// Byte for byte to our own stdout and stderr, without bound.
    Passthrough,
    /// The same, for a caller who made the pipes and wants to know what the run used.
    Given,
    /// Kept for the outcome: head and tail up to this many bytes a stream, the rest counted.
    Capture {
        /// Per stream.
        bytes_max: u64,
    },
}

/// One captured stream.
#[derive(Debug, Default)]
pub struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half_max: usize,
    /// Bytes the program wrote.
    pub total_bytes: u64,
}

/// Adds to the end of a queue and drops what is then too much from its beginning.
pub(crate) fn keep_last(queue: &mut VecDeque<u8>, bytes: &[u8], n_max: usize) {
    // Of a flood only the last part can survive; do not move the rest through the queue.
    let rest = &bytes[bytes.len().saturating_sub(n_max)..];
    let excess = (queue.len() + rest.len()).saturating_sub(n_max);
    queue.drain(..excess.min(queue.len()));
    queue.extend(rest);
}

impl Output {
    /// Nothing yet; keeps this many bytes in all.
    pub fn new(bytes_max: u64) -> Self {
        let half_max = usize::try_from(bytes_max / 2).unwrap_or(usize::MAX / 4).max(1);
        Self { half_max, ..Self::default() }
    }

    /// Adds what was written next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let room = self.half_max - self.head.len().min(self.half_max);
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        keep_last(&mut self.tail, rest, self.half_max);
    }

    /// How many bytes were dropped between head and tail.
    pub fn dropped_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// Head and tail.
    pub fn parts(mut self) -> (Vec<u8>, Vec<u8>) {
        self.tail.make_contiguous();
        (self.head, self.tail.into())
    }
}

/// The supervisor's side.
#[derive(Debug, Default)]
pub(crate) struct Plumbing {
    /// Whether somebody asks what the run used, however well it ended.
    pub(crate) counts_wanted: bool,
    pub(crate) pumps: Vec<Pump>,
    pub(crate) captures: Vec<Capture>,
}

/// Copies one way between a descriptor of the caller's and a pipe of the run's.
#[derive(Debug)]
pub(crate) struct Pump {
    from: OwnedFd,
    to: Option<OwnedFd>,
    buffer: Vec<u8>,
    sent: usize,
    /// Whether this one carries the program's output, which must be drained at the end.
    output: bool,
    from_open: bool,
    /// A regular file is always ready and answers end of file at its end.
    pub(crate) bytes: u64,
}

/// Keeps what comes out of a pipe.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) from: Option<OwnedFd>,
    pub(crate) output: Output,
}

/// What the run is given, and what is left for us to do.
pub(crate) fn prepare(
    mode: StdioMode,
    terminal: bool,
) -> Result<([Option<OwnedFd>; 3], Plumbing), Problem> {
    let mut plumbing =
        Plumbing { counts_wanted: mode != StdioMode::Passthrough, ..Plumbing::default() };
    let on_terminal = |fd: BorrowedFd<'_>| terminal && rustix::termios::isatty(fd);
    let wrap = |e: CallError| {
        Problem::internal("stdio", "cannot connect the program's input and output").cause(e)
    };
    let stdin = rustix::stdio::stdin();
    let stdin = if on_terminal(stdin) {
        None
    } else {
        Some(match classify(stdin, "stdin")? {
            Class::Pass => dup(stdin).map_err(wrap)?,
            Class::Copy => {
                let (read, write) = pipe().map_err(wrap)?;
                nonblocking(&write).map_err(wrap)?;
                plumbing.pumps.push(Pump::new(dup(stdin).map_err(wrap)?, write, false));
                read
            }
        })
    };
    let mut output = |fd: BorrowedFd<'static>, name: &str| -> Result<Option<OwnedFd>, Problem> {
        if let StdioMode::Capture { bytes_max } = mode {
            let (read, write) = pipe().map_err(wrap)?;
            nonblocking(&read).map_err(wrap)?;
            plumbing.captures.push(Capture { from: Some(read), output: Output::new(bytes_max) });
            return Ok(Some(write));
        }
        if on_terminal(fd) {
            return Ok(None);
        }
        Ok(Some(match classify(fd, name)? {
            Class::Pass => dup(fd).map_err(wrap)?,
            Class::Copy => {
                let (read, write) = pipe().map_err(wrap)?;
                nonblocking(&read).map_err(wrap)?;
                plumbing.pumps.push(Pump::new(read, unblocked(fd).map_err(wrap)?, true));
                write
            }
        }))
    };
    let stdout = output(rustix::stdio::stdout(), "stdout")?;
    let stderr = output(rustix::stdio::stderr(), "stderr")?;
    Ok(([stdin, stdout, stderr], plumbing))
}

enum Class {
    Pass,
    Copy,
}

fn classify(fd: BorrowedFd<'_>, name: &str) -> Result<Class, Problem> {
    let stat = rustix::fs::fstat(fd)
        .map_err(|e| Problem::usage("stdio_closed", format!("{name} is not open")).cause(e))?;
    match FileType::from_raw_mode(stat.st_mode) {
        // A pipe without a name. Who holds one with a name can change its permissions.
        FileType::Fifo if rustix::fs::fstatfs(fd).is_ok_and(|s| s.f_type == PIPEFS_MAGIC) => {
            Ok(Class::Pass)
        }
        // Major 1, minor 3: /dev/null, the same inside.
        FileType::CharacterDevice
            if (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)) == (1, 3) =>
        {
            Ok(Class::Pass)
        }
        FileType::Directory | FileType::BlockDevice => Err(Problem::usage(
            "stdio_unsafe",
            format!("{name} is a directory or a block device, which would reach past the fence"),
        )
        .hint(format!("redirect {name} from a pipe, a file or /dev/null"))),
        _ => Ok(Class::Copy),
    }
}

impl Pump {
    fn new(from: OwnedFd, to: OwnedFd, output: bool) -> Self {
        Self { from, to: Some(to), buffer: Vec::new(), sent: 0, output, from_open: true, bytes: 0 }
    }

    /// What to wait for, if anything.
    pub(crate) fn wants(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let to = self.to.as_ref()?;
        if self.sent < self.buffer.len() {
            return Some((to.as_fd(), PollFlags::OUT));
        }
        self.from_open.then(|| (self.from.as_fd(), PollFlags::IN))
    }

    /// Moves one piece.
    pub(crate) fn step(&mut self) {
        let Some(to) = &self.to else { return };
        if self.sent < self.buffer.len() {
            // A terminal takes little at once and blocks on more; a piece this small fits after POLLOUT.
            let end = self.buffer.len().min(self.sent + 4096);
            match rustix::io::write(to, &self.buffer[self.sent..end]) {
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => self.to = None,
            }
        } else {
            self.sent = 0;
            match read_into(&mut self.buffer, &self.from) {
                Ok(0) | Err(Failed::Finally) => self.from_open = false,
                Ok(n) => self.bytes += n as u64,
                Err(Failed::ForNow) => {}
            }
            if !self.from_open {
                self.to = None;
            }
        }
    }

    /// Whether output is still on its way.
    pub(crate) fn owes_output(&self) -> bool {
        self.output && self.to.is_some()
    }
}

impl Capture {
    /// Keeps what is there.
    pub(crate) fn step(&mut self, buffer: &mut Vec<u8>) {
        let Some(from) = &self.from else { return };
        match read_into(buffer, from) {
            Ok(0) | Err(Failed::Finally) => self.from = None,
            Ok(_) => self.output.push(buffer),
            Err(Failed::ForNow) => {}
        }
    }
}

/// Why nothing was read.
enum Failed {
    /// Nothing is there yet.
    ForNow,
    /// Nothing will be.
    Finally,
}

/// One piece, in place of what `buffer` held. Its memory is not touched before something is there to put in it.
fn read_into(buffer: &mut Vec<u8>, from: &OwnedFd) -> Result<usize, Failed> {
    buffer.clear();
    buffer.reserve_exact(CHUNK);
    rustix::io::read(from, rustix::buffer::spare_capacity(buffer)).map_err(|errno| match errno {
        Errno::AGAIN | Errno::INTR => Failed::ForNow,
        _ => Failed::Finally,
    })
}

fn pipe() -> Result<(OwnedFd, OwnedFd), CallError> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).named(|| "pipe2")
}

fn dup(fd: BorrowedFd<'_>) -> Result<OwnedFd, CallError> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3).named(|| "fcntl(F_DUPFD_CLOEXEC)")
}

/// A descriptor for the same terminal that never makes us wait, without changing the caller's own. What is no
/// terminal is duplicated: files do not wait, and pipes take what they said they have room for.
pub(crate) fn unblocked(fd: BorrowedFd<'_>) -> Result<OwnedFd, CallError> {
    use std::os::fd::AsRawFd;
    if rustix::termios::isatty(fd) {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        if let Ok(own) = rustix::fs::open(path, flags, rustix::fs::Mode::empty()) {
            return Ok(own);
        }
    }
    dup(fd)
}

fn nonblocking(fd: impl AsFd) -> Result<(), CallError> {
    let flags = rustix::fs::fcntl_getfl(&fd).named(|| "fcntl(F_GETFL)")?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK).named(|| "fcntl(F_SETFL)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_head_and_tail_and_counts_the_rest() {
        let mut output = Output::new(10);
        for chunk in [&b"abc"[..], b"defgh", b"ijklmnop", b"q"] {
            output.push(chunk);
        }
        assert_eq!((output.total_bytes, output.dropped_bytes()), (17, 7));
        assert_eq!(output.parts(), (b"abcde".to_vec(), b"mnopq".to_vec()));
    }

    #[test]
    fn little_output_is_kept_whole() {
        let mut output = Output::new(10);
        output.push(b"abcdefgh");
        assert_eq!(output.dropped_bytes(), 0);
        assert_eq!(output.parts(), (b"abcde".to_vec(), b"fgh".to_vec()));
    }
}
