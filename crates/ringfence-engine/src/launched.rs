//! Runs a command through the launcher: its input, its output, its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use ringfence_jail::{Finished, LaunchError, LaunchRequest, Launcher, Output, OutputBuffer};
use ringfence_plan::Plan;
use ringfence_spec::{Code, Problem};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Input and output settings of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandInput<'a> {
    pub(crate) stdin: &'a [u8],
    pub(crate) output_bytes_max: u64,
    /// Descriptors that cancel the run once one of them is readable.
    pub(crate) cancel: &'a [BorrowedFd<'a>],
    /// Buffer for callers that read the output before the run ends.
    pub(crate) partial_output: Option<&'a OutputBuffer>,
}

/// A plan for the launcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchPlan<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) plan: &'a Plan,
    /// Directory with the records of placeholders.
    pub(crate) state: &'a Path,
    /// Its name on this host while it lasts.
    pub(crate) name: &'a str,
    /// A memory file for the network helper.
    pub(crate) credentials: Option<BorrowedFd<'a>>,
}

/// Pauses before a command is launched again for which the host has no namespaces left. The kernel frees them some time
/// after their last process.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(300)];

/// Runs a command to its end. Callable from any thread.
pub(crate) fn run(
    launch: LaunchPlan<'_>,
    given: CommandInput<'_>,
) -> Result<Finished, LaunchError> {
    let mut ran = run_once(launch, given, None, false);
    for pause in PAUSES {
        // Full, not refused: those that supervisors wait with can be freed.
        if !matches!(&ran, Err(LaunchError::NoRoom(_))) {
            break;
        }
        std::thread::sleep(pause);
        ran = run_once(launch, given, None, true);
    }
    ran
}

/// Runs a program to its end. `channel` becomes its descriptor 3. Callable from any thread.
pub(crate) fn run_with_channel(
    launch: LaunchPlan<'_>,
    given: CommandInput<'_>,
    channel: OwnedFd,
) -> Result<Finished, LaunchError> {
    run_once(launch, given, Some(channel), false)
}

fn run_once(
    launch: LaunchPlan<'_>,
    given: CommandInput<'_>,
    channel: Option<OwnedFd>,
    is_alone: bool,
) -> Result<Finished, LaunchError> {
    let LaunchPlan { launcher, plan, state, name, credentials } = launch;
    let pipe = || {
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map_err(|e| Problem::internal(Code::Pipes, "cannot connect the run").cause(e))
    };
    let (stdin_inside, stdin) = pipe()?;
    let (stdout, stdout_inside) = pipe()?;
    let (stderr, stderr_inside) = pipe()?;
    for fd in [&stdin, &stdout, &stderr] {
        rustix::io::ioctl_fionbio(fd, true)
            .map_err(|e| Problem::internal(Code::Pipes, "cannot connect the run").cause(e))?;
    }
    let launched = launcher.launch(&LaunchRequest {
        plan,
        state,
        name,
        stdio: [stdin_inside.as_fd(), stdout_inside.as_fd(), stderr_inside.as_fd()],
        channel: channel.as_ref().map(AsFd::as_fd),
        credentials,
        is_alone,
    })?;
    drop((stdin_inside, stdout_inside, stderr_inside, channel));
    let mut streams = Streams {
        stdin: Some(stdin),
        unread: given.stdin,
        out: [
            Stream::new(stdout, given, OutputBuffer::add_stdout),
            Stream::new(stderr, given, OutputBuffer::add_stderr),
        ],
    };
    streams.feed();
    let mut cancel = given.cancel;
    loop {
        match streams.step(launched.line(), cancel)? {
            Step::Going => {}
            Step::Cancelled => {
                launched.cancel();
                cancel = &[];
            }
            Step::Over => break,
        }
    }
    let mut finished = launched.wait()?;
    let [out, err] = streams.out.map(Stream::finish);
    finished.output = Some((out, err));
    Ok(finished)
}

/// State of a run after some events.
enum Step {
    Going,
    Cancelled,
    Over,
}

struct Streams<'a> {
    stdin: Option<OwnedFd>,
    unread: &'a [u8],
    out: [Stream<'a>; 2],
}

struct Stream<'a> {
    fd: Option<OwnedFd>,
    output: Output,
    partial_output: Option<&'a OutputBuffer>,
    /// Appends to this stream's half of `partial_output`.
    add: fn(&OutputBuffer, &[u8]),
}

impl<'a> Stream<'a> {
    fn new(fd: OwnedFd, given: CommandInput<'a>, add: fn(&OutputBuffer, &[u8])) -> Self {
        let output = Output::new(given.output_bytes_max);
        Self { fd: Some(fd), output, partial_output: given.partial_output, add }
    }

    /// Reads until the pipe is empty or closed.
    fn read(&mut self) {
        let mut buffer = Vec::with_capacity(CHUNK);
        while let Some(fd) = &self.fd {
            buffer.clear();
            match rustix::io::read(fd, rustix::buffer::spare_capacity(&mut buffer)) {
                Ok(0) => self.fd = None,
                Ok(_) => {
                    self.output.push(&buffer);
                    if let Some(partial_output) = self.partial_output {
                        (self.add)(partial_output, &buffer);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.fd = None,
            }
        }
    }

    fn finish(mut self) -> Output {
        self.read();
        self.output
    }
}

impl Streams<'_> {
    /// Waits for the next events and handles them.
    fn step(&mut self, line: BorrowedFd<'_>, cancel: &[BorrowedFd<'_>]) -> Result<Step, Problem> {
        let [out, err] = &self.out;
        let sources = [
            (Some(line), PollFlags::IN),
            (self.stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (out.fd.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (err.fd.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        let mut fds: Vec<PollFd<'_>> = sources
            .iter()
            .filter_map(|(fd, flags)| fd.map(|fd| PollFd::from_borrowed_fd(fd, *flags)))
            .chain(cancel.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)))
            .collect();
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None))
            .map_err(|e| Problem::internal(Code::Poll, "cannot watch the run").cause(e))?;
        let mut revents = fds.iter().map(PollFd::revents);
        let ready = sources.each_ref().map(|source| {
            source.0.is_some() && revents.next().is_some_and(|flags| !flags.is_empty())
        });
        let cancelled = revents.any(|flags| !flags.is_empty());
        let [over, wants_more, out, err] = ready;
        if wants_more {
            self.feed();
        }
        for (stream, ready) in self.out.iter_mut().zip([out, err]) {
            if ready {
                stream.read();
            }
        }
        Ok(match (over, cancelled) {
            (true, _) => Step::Over,
            (false, true) => Step::Cancelled,
            (false, false) => Step::Going,
        })
    }

    fn feed(&mut self) {
        while let Some(stdin) = self.stdin.as_ref().filter(|_| !self.unread.is_empty()) {
            match rustix::io::write(stdin, self.unread) {
                Ok(n) => self.unread = &self.unread[n..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.unread = &[],
            }
        }
        self.stdin = None;
    }
}
