//! The program's stdin, stdout and stderr. Pipes to write to are passed through; a pipe to read from, a file, socket or device
//! of the caller's never is, because the holder of such a descriptor can write to, chmod, reconnect or reopen the object
//! behind it: its bytes are copied instead.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use ringfence_spec::{Code, Problem};
use ringfence_sys::{CallError, Named};
use rustix::event::PollFlags;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::PipeFlags;

use crate::output_buffer::{MakeFilter, OutputFilter};
use crate::stdin_pump::StdinPump;

/// Bytes moved at once. A pipe holds 64 KiB.
const CHUNK: usize = 64 << 10;

/// `PIPEFS_MAGIC`: where pipes without a name live.
const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;

/// Handling of the program's output.
#[derive(Clone, Copy, Debug)]
pub enum StdioMode {
    /// Byte for byte to this process's stdout and stderr, without bound.
    Passthrough,
    /// The same through a filter, one for each stream.
    Filtered(MakeFilter),
    /// The same, for a caller that made the pipes and needs the run's resource usage.
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

/// Appends to a queue and drops the excess from its front.
pub(crate) fn keep_last(queue: &mut VecDeque<u8>, bytes: &[u8], n_max: usize) {
    // Of a large write only the last part survives; do not move the rest through the queue.
    let rest = &bytes[bytes.len().saturating_sub(n_max)..];
    let excess = (queue.len() + rest.len()).saturating_sub(n_max);
    queue.drain(..excess.min(queue.len()));
    queue.extend(rest);
}

impl Output {
    /// An empty stream that keeps this many bytes in all.
    pub fn new(bytes_max: u64) -> Self {
        let half_max = usize::try_from(bytes_max / 2).unwrap_or(usize::MAX / 4).max(1);
        Self { half_max, ..Self::default() }
    }

    /// Adds output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let room = self.half_max - self.head.len().min(self.half_max);
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        keep_last(&mut self.tail, rest, self.half_max);
    }

    /// Number of bytes dropped between head and tail.
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
pub(crate) struct StdioPumps {
    /// True if the caller needs resource usage even of a successful run.
    pub(crate) counts_wanted: bool,
    pub(crate) pumps: Vec<Pump>,
    /// From a pipe of the caller's.
    pub(crate) stdin: Option<StdinPump>,
    pub(crate) captures: Vec<Capture>,
    /// Pipes of the caller's that the run writes to.
    shared: Vec<SharedPipe>,
}

/// A pipe of the caller's that the run has too. Dropping it restores its flags: `O_NONBLOCK` belongs to the open file, which the
/// caller goes on with.
#[derive(Debug)]
struct SharedPipe {
    fd: OwnedFd,
    flags: OFlags,
}

impl SharedPipe {
    fn new(fd: BorrowedFd<'_>) -> Result<Self, CallError> {
        let flags = rustix::fs::fcntl_getfl(fd).named(|| "fcntl(F_GETFL)")?;
        Ok(Self { fd: dup(fd)?, flags })
    }
}

impl Drop for SharedPipe {
    fn drop(&mut self) {
        if rustix::fs::fcntl_getfl(&self.fd).is_ok_and(|now| now != self.flags) {
            let _ = rustix::fs::fcntl_setfl(&self.fd, self.flags);
        }
    }
}

/// Copies one way between a descriptor of the caller's and a pipe of the run's. Never waits for either.
#[derive(Debug)]
pub(crate) struct Pump {
    from: Option<End>,
    to: Option<End>,
    buffer: Vec<u8>,
    sent: usize,
    /// The program's output stream that this pump carries, which must be drained at the end.
    output: Option<&'static str>,
    /// Error that lost output.
    lost: Option<Errno>,
    /// Rewrites what is copied.
    filter: Option<Box<dyn OutputFilter>>,
    /// A file of the caller's that is read.
    file: Option<SharedFile>,
}

/// A file that is copied to the program's stdin, and the end that the program reads. What it did not read is given back by the
/// file's position, which other programs of the caller may share: `while read f; do ringfence run …; done < list`.
#[derive(Debug)]
struct SharedFile {
    file: OwnedFd,
    inside: OwnedFd,
    n_read: u64,
}

/// A descriptor that is read from or written to without waiting.
#[derive(Debug)]
struct End {
    fd: OwnedFd,
    kind: EndKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndKind {
    /// Its open file is non-blocking.
    NonBlocking,
    /// Its open file is the caller's, which must not be changed: each call passes `MSG_DONTWAIT`.
    Socket,
    /// A file or device that does not block, or one that could not be reopened: polled before each call.
    Polled,
}

impl End {
    /// For a pipe of this process.
    fn of_pipe(fd: OwnedFd) -> Result<Self, CallError> {
        nonblocking(&fd)?;
        Ok(Self { fd, kind: EndKind::NonBlocking })
    }

    /// For a descriptor of the caller's, without changing its open file, which others may share.
    fn of_caller(fd: BorrowedFd<'_>, access: OFlags) -> Result<Self, CallError> {
        let stat = rustix::fs::fstat(fd).named(|| "fstat")?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => EndKind::Socket,
            FileType::Fifo | FileType::CharacterDevice => {
                if let Some(own) = reopened(fd, access) {
                    return Ok(Self { fd: own, kind: EndKind::NonBlocking });
                }
                EndKind::Polled
            }
            _ => EndKind::Polled,
        };
        Ok(Self { fd: dup(fd)?, kind })
    }

    fn read(&self, buffer: &mut Vec<u8>) -> Result<usize, Failed> {
        if self.kind == EndKind::Polled && !ringfence_sys::is_ready(&self.fd, PollFlags::IN) {
            return Err(Failed::WouldBlock);
        }
        if self.kind != EndKind::Socket {
            return read_into(buffer, &self.fd);
        }
        buffer.resize(CHUNK, 0);
        let received = rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::DONTWAIT);
        let n = received.map(|(n, _)| n).map_err(Failed::from);
        buffer.truncate(*n.as_ref().unwrap_or(&0));
        n
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.kind {
            EndKind::NonBlocking => rustix::io::write(&self.fd, bytes),
            EndKind::Socket => {
                rustix::net::send(&self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }
            EndKind::Polled if !ringfence_sys::is_ready(&self.fd, PollFlags::OUT) => {
                Err(Errno::AGAIN)
            }
            // A pipe that polls writable takes this much: pipe(7), PIPE_BUF.
            EndKind::Polled => rustix::io::write(&self.fd, &bytes[..bytes.len().min(4096)]),
        }
    }
}

/// Captures the output of a pipe.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) from: Option<OwnedFd>,
    pub(crate) output: Output,
}

/// The run's descriptors, and the pumps and captures that serve them.
pub(crate) fn prepare(
    mode: StdioMode,
    terminal: bool,
) -> Result<([Option<OwnedFd>; 3], StdioPumps), Problem> {
    let mut plumbing = StdioPumps {
        counts_wanted: !matches!(mode, StdioMode::Passthrough),
        ..StdioPumps::default()
    };
    let on_terminal = |fd: BorrowedFd<'_>| terminal && rustix::termios::isatty(fd);
    let wrap = |e: CallError| {
        Problem::internal(Code::Stdio, "cannot connect the program's input and output").cause(e)
    };
    let stdin = rustix::stdio::stdin();
    let stdin = if on_terminal(stdin) {
        None
    } else {
        Some(match classify(stdin, "stdin")? {
            Class::Pipe if !matches!(mode, StdioMode::Given) => {
                let (pump, inside) = StdinPump::new(stdin).map_err(wrap)?;
                plumbing.stdin = Some(pump);
                inside
            }
            Class::Pipe | Class::Null => dup(stdin).map_err(wrap)?,
            class @ (Class::File | Class::Copy) => {
                let (read, write) = pipe().map_err(wrap)?;
                let from = End::of_caller(stdin, OFlags::RDONLY).map_err(wrap)?;
                let to = End::of_pipe(write).map_err(wrap)?;
                let mut pump = Pump::new(from, to, None);
                if matches!(class, Class::File) {
                    let file = dup(stdin).map_err(wrap)?;
                    let inside = dup(read.as_fd()).map_err(wrap)?;
                    pump.file = Some(SharedFile { file, inside, n_read: 0 });
                }
                plumbing.pumps.push(pump);
                read
            }
        })
    };
    let mut output = |fd: BorrowedFd<'static>, name: &'static str| {
        if let StdioMode::Capture { bytes_max } = mode {
            let (read, write) = pipe().map_err(wrap)?;
            nonblocking(&read).map_err(wrap)?;
            plumbing.captures.push(Capture { from: Some(read), output: Output::new(bytes_max) });
            return Ok(Some(write));
        }
        if on_terminal(fd) {
            return Ok(None);
        }
        if let StdioMode::Filtered(make) = mode {
            classify(fd, name)?;
            let (read, write) = pipe().map_err(wrap)?;
            let from = End::of_pipe(read).map_err(wrap)?;
            let to = End::of_caller(fd, OFlags::WRONLY).map_err(wrap)?;
            let mut pump = Pump::new(from, to, Some(name));
            pump.filter = Some(make());
            plumbing.pumps.push(pump);
            return Ok(Some(write));
        }
        Ok::<_, Problem>(Some(match classify(fd, name)? {
            Class::Pipe => {
                if !matches!(mode, StdioMode::Given) {
                    plumbing.shared.push(SharedPipe::new(fd).map_err(wrap)?);
                }
                dup(fd).map_err(wrap)?
            }
            Class::Null => dup(fd).map_err(wrap)?,
            Class::File | Class::Copy => {
                let (read, write) = pipe().map_err(wrap)?;
                let from = End::of_pipe(read).map_err(wrap)?;
                let to = End::of_caller(fd, OFlags::WRONLY).map_err(wrap)?;
                plumbing.pumps.push(Pump::new(from, to, Some(name)));
                write
            }
        }))
    };
    let stdout = output(rustix::stdio::stdout(), "stdout")?;
    let stderr = output(rustix::stdio::stderr(), "stderr")?;
    Ok(([stdin, stdout, stderr], plumbing))
}

/// What a descriptor of the caller's is.
enum Class {
    /// A pipe without a name.
    Pipe,
    /// `/dev/null`.
    Null,
    /// A regular file.
    File,
    /// Anything else whose bytes are copied.
    Copy,
}

fn classify(fd: BorrowedFd<'_>, name: &str) -> Result<Class, Problem> {
    let stat = rustix::fs::fstat(fd)
        .map_err(|e| Problem::usage(Code::StdioClosed, format!("{name} is not open")).cause(e))?;
    match FileType::from_raw_mode(stat.st_mode) {
        // A pipe without a name. The holder of a named one can change its permissions.
        FileType::Fifo if rustix::fs::fstatfs(fd).is_ok_and(|s| s.f_type == PIPEFS_MAGIC) => {
            Ok(Class::Pipe)
        }
        // Major 1, minor 3: /dev/null, the same inside.
        FileType::CharacterDevice
            if (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)) == (1, 3) =>
        {
            Ok(Class::Null)
        }
        FileType::RegularFile => Ok(Class::File),
        FileType::Directory | FileType::BlockDevice => Err(Problem::usage(
            Code::StdioUnsafe,
            format!("{name} is a directory or a block device, which would reach past the fence"),
        )
        .hint(format!("redirect {name} from a pipe, a file or /dev/null"))),
        _ => Ok(Class::Copy),
    }
}

impl Pump {
    fn new(from: End, to: End, output: Option<&'static str>) -> Self {
        let (from, to) = (Some(from), Some(to));
        let buffer = Vec::new();
        Self { from, to, buffer, sent: 0, output, lost: None, filter: None, file: None }
    }

    /// The descriptor and events to poll for, if any.
    pub(crate) fn wants(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let to = self.to.as_ref()?;
        match &self.from {
            Some(from) if self.sent == self.buffer.len() => Some((from.fd.as_fd(), PollFlags::IN)),
            // Bytes wait to be written, or all are read and written: then the next step closes it.
            _ => Some((to.fd.as_fd(), PollFlags::OUT)),
        }
    }

    /// Moves one chunk.
    pub(crate) fn step(&mut self) {
        let Some(to) = &self.to else { return };
        if self.sent < self.buffer.len() {
            match to.write(&self.buffer[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => self.lose(errno),
            }
            return;
        }
        self.sent = 0;
        self.buffer.clear();
        let Some(from) = &self.from else { return self.close() };
        match (from.read(&mut self.buffer), &mut self.filter) {
            (Ok(0) | Err(Failed::Closed), None) => self.close(),
            (Ok(0) | Err(Failed::Closed), Some(filter)) => {
                self.buffer = filter.finish();
                self.from = None;
            }
            (Ok(_), Some(filter)) => self.buffer = filter.push(&self.buffer),
            (Ok(n), None) => self.file.iter_mut().for_each(|file| file.n_read += n as u64),
            (Err(Failed::WouldBlock), _) => {}
        }
    }

    /// Time at which bytes that the filter holds back must be written. None while others wait to be.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.filter.as_ref().filter(|_| self.sent == self.buffer.len())?.due()
    }

    /// Writes what the filter held back long enough, as soon as the reader takes it.
    pub(crate) fn check_time(&mut self, now: Instant) {
        if self.due().is_some_and(|due| now >= due)
            && let Some(filter) = &mut self.filter
        {
            self.buffer = filter.overdue(now);
            self.sent = 0;
        }
    }

    /// Ends the pump if nothing more can be written: the writer gets a closed pipe instead of waiting.
    pub(crate) fn lose(&mut self, errno: Errno) {
        // A reader that has closed its end needs no more.
        if errno != Errno::PIPE {
            self.lost = self.lost.or(Some(errno));
        }
        self.close();
    }

    fn close(&mut self) {
        self.to = None;
        self.from = None;
    }

    /// Returns true if output is still pending.
    pub(crate) fn has_pending_output(&self) -> bool {
        self.output.is_some() && self.to.is_some()
    }

    /// The stream whose bytes were lost, and the error.
    pub(crate) fn lost(&self) -> Option<(&'static str, Errno)> {
        self.output.zip(self.lost)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let Some(SharedFile { file, inside, n_read }) = &self.file else { return };
        let in_pipe = rustix::io::ioctl_fionread(inside).unwrap_or(0);
        // The run can write to its own pipe: what it adds there was not read from the file.
        let unread = (in_pipe + (self.buffer.len() - self.sent) as u64).min(*n_read);
        if let Some(back) = i64::try_from(unread).ok().filter(|n| *n > 0) {
            let _ = rustix::fs::seek(file, rustix::fs::SeekFrom::Current(-back));
        }
    }
}

impl Capture {
    /// Captures the available bytes.
    pub(crate) fn step(&mut self, buffer: &mut Vec<u8>) {
        let Some(from) = &self.from else { return };
        match read_into(buffer, from) {
            Ok(0) | Err(Failed::Closed) => self.from = None,
            Ok(_) => self.output.push(buffer),
            Err(Failed::WouldBlock) => {}
        }
    }
}

/// Reason that nothing was read.
enum Failed {
    /// Nothing is there yet.
    WouldBlock,
    /// Nothing will be.
    Closed,
}

/// Replaces the content of `buffer` with one chunk. Its memory is not touched before there is data to put in it.
fn read_into(buffer: &mut Vec<u8>, from: &OwnedFd) -> Result<usize, Failed> {
    buffer.clear();
    buffer.reserve_exact(CHUNK);
    rustix::io::read(from, rustix::buffer::spare_capacity(buffer)).map_err(Failed::from)
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN | Errno::INTR => Self::WouldBlock,
            _ => Self::Closed,
        }
    }
}

pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), CallError> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).named(|| "pipe2")
}

pub(crate) fn dup(fd: BorrowedFd<'_>) -> Result<OwnedFd, CallError> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3).named(|| "fcntl(F_DUPFD_CLOEXEC)")
}

/// A non-blocking descriptor for the same terminal, without changing the caller's own. Any other descriptor is
/// duplicated: files do not block, and pipes take as many bytes as they polled for.
pub(crate) fn unblocked(fd: BorrowedFd<'_>) -> Result<OwnedFd, CallError> {
    let own = rustix::termios::isatty(fd).then(|| reopened(fd, OFlags::RDWR)).flatten();
    own.map_or_else(|| dup(fd), Ok)
}

/// Opens the same pipe or terminal again, non-blocking.
pub(crate) fn reopened(fd: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()
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
