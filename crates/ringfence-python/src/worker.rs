//! One worker and one run in it: sends it the program, captures its output, ends it at the deadline, waits for its
//! death.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use ringfence_jail::Output;
use ringfence_jail::{OutputBuffer, Permit, anonymous_bytes, cpu_so_far};
use ringfence_spec::{Code, DenialRule, Problem};
use ringfence_sys::{CallError, Named};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::Signal;
use serde::Deserialize;

use crate::artifacts::Artifacts;
use crate::broker::{Broker, Calls};
use crate::channel::{self, CHUNK_BYTES};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Bytes read of a stream whose writer is ended or paused afterwards: the most that a process without privileges can have a
/// pipe hold, `/proc/sys/fs/pipe-max-size`.
const DRAIN_BYTES_MAX: u64 = 1 << 20;

/// Time in which a process that reported its end must be dead.
const EXIT_TIMEOUT: Duration = Duration::from_millis(250);

/// Interval between checks of a run's memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);

/// Memory of an interpreter before its program allocates anything.
const MEMORY_SLACK_BYTES: u64 = 32 << 20;

/// Maximum number of denials kept from the guest's report.
const DENIALS_MAX: usize = 50;

/// A program and its inputs.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The source.
    pub code: Vec<u8>,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// Files in its directory: name below it, content.
    pub files: Vec<(String, Vec<u8>)>,
    /// `sys.argv` after the first.
    pub argv: Vec<String>,
    /// Its name in tracebacks; `main.py` by default.
    pub name: Option<String>,
    /// True to return the value of a final expression.
    pub value: bool,
    /// True to find modules in its directory, as `python` does. They are not screened.
    pub own_modules: bool,
    /// Wall clock.
    pub timeout: Option<Duration>,
    /// Bytes kept of each stream.
    pub output_bytes_max: u64,
    /// Receives the output while the program runs.
    pub output: Option<OutputBuffer>,
    /// Answers calls of the program; none if it may make none.
    pub broker: Option<Arc<dyn Broker>>,
}

/// A zygote of the pool. The next one in its place gives the same pids to other workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZygoteId {
    /// Its place.
    pub(crate) number: usize,
    /// Zygotes that died in this place before it.
    pub(crate) n_died: u64,
}

/// A fenced process that waits for a program.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Its pid in the zygote's namespace.
    pub(crate) pid: u32,
    /// Its pid on the host.
    pub(crate) host_pid: u32,
    /// Its zygote in the pool.
    pub(crate) zygote: ZygoteId,
    pub(crate) ends: Ends,
    pub(crate) workspace: Option<OwnedFd>,
    pub(crate) mounts: Option<OwnedFd>,
    pub(crate) listener: Option<OwnedFd>,
}

/// The host's ends of the channel and streams of a guest process.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) channel: OwnedFd,
    pub(crate) pidfd: OwnedFd,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

/// Result of a run.
#[derive(Debug)]
pub struct Finished {
    /// Its end.
    pub ended: Ended,
    /// Reason that it did not begin.
    pub refused: Option<String>,
    /// The guest's own report: useful, but not proof.
    pub said: Option<GuestReport>,
    /// stdout.
    pub stdout: Output,
    /// stderr.
    pub stderr: Output,
    /// From the request to the death of its tree.
    pub wall: Duration,
    /// From the request to the first byte of output.
    pub first_byte: Option<Duration>,
    /// CPU time: the kernel's count if the host killed it, else the guest's.
    pub cpu: Duration,
    /// Files it left.
    pub artifacts: Artifacts,
    /// The worker's pid in the zygote's namespace.
    pub(crate) pid: u32,
    /// Closing this waits until the kernel has unmounted everything.
    pub(crate) mounts: Option<OwnedFd>,
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with a report.
    Done,
    /// Before it began: its files could not be written.
    Refused,
    /// Killed at its deadline.
    Deadline,
    /// Killed because the caller cancelled it.
    Cancelled,
    /// Killed because it exceeded its memory limit.
    Memory,
    /// Without a report; with the exit status if the zygote sent it.
    Silently(Option<Exit>),
}

/// Exit status and usage of a process, from wait4(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its status.
    pub status: i32,
    /// CPU time it used.
    pub cpu: Duration,
    /// Peak memory.
    pub memory_peak_bytes: u64,
}

impl Exit {
    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        Some(self.status & 0x7f).filter(|signal| *signal != 0)
    }

    /// Its exit code, if it exited.
    pub fn code(&self) -> Option<i32> {
        self.signal().is_none().then_some((self.status >> 8) & 0xff)
    }
}

/// The guest's final report.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GuestReport {
    /// Its exit code.
    pub exit: i64,
    /// The value of a final expression.
    pub value: Option<String>,
    /// The exception it raised.
    pub exception: Option<Raised>,
    /// Actions that it attempted.
    #[serde(default)]
    pub denials: Vec<Attempt>,
    #[serde(default)]
    cpu_s: f64,
    #[serde(default)]
    rss_kb: u64,
}

impl GuestReport {
    /// Parses a report from the guest; `None` if it is malformed.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let mut said: Self = serde_json::from_slice(frame).ok()?;
        said.denials.truncate(DENIALS_MAX);
        Some(said)
    }

    /// The highest memory use it saw.
    pub fn memory_peak_bytes(&self) -> u64 {
        self.rss_kb.saturating_mul(1024)
    }
}

/// An exception.
#[derive(Clone, Debug, Deserialize)]
pub struct Raised {
    /// Its class.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its message.
    pub message: String,
    /// The line of the program.
    pub line: Option<u32>,
}

/// An attempt that the guest's own interpreter observed and the fence does not allow.
#[derive(Clone, Debug, Deserialize)]
pub struct Attempt {
    /// Stable name of the rule.
    pub rule: DenialRule,
    /// The object of the attempt.
    pub subject: String,
}

/// Conditions of a run besides its job.
pub(crate) struct RunContext<'a, F> {
    /// Memory at which it ends.
    pub(crate) memory_bytes_max: Option<u64>,
    /// It ends when there is something to read here.
    pub(crate) cancel: Option<BorrowedFd<'a>>,
    /// Returns true if some processor has no run.
    pub(crate) spare: F,
}

impl Worker {
    /// Runs a program to its end.
    pub(crate) fn run(
        mut self,
        job: &Job,
        around: &RunContext<'_, impl Fn() -> bool>,
        permit: Option<Permit<'_>>,
    ) -> Result<Finished, Problem> {
        let began = Instant::now();
        let deadline = job.timeout.map(|timeout| began + timeout);
        let mut run = Run::new(began, &job.stdin, job);
        // A worker that just died cannot receive the job; its death is noticed below.
        let fate = if permit.is_some() { AfterRun::OncePermitted } else { AfterRun::Single };
        let cancel = around.cancel;
        if let Err(error) = self.ends.give(job, fate, deadline, cancel.as_slice())
            && error.errno == Errno::MSGSIZE
        {
            self.ends.kill();
            run.refused = Some(error.to_string());
        } else if let Some(permit) = permit {
            (permit.0)()?;
            let _ = self.ends.send_until(b'B', &[], deadline, cancel.as_slice());
        }
        if run.unread.is_empty() {
            self.ends.stdin = None;
        }
        let mut killed = None;
        let mut cpu = None;
        let mut released = false;
        let mut bounds =
            Bounds { deadline, memory: MemoryWatch::new(self.host_pid, around.memory_bytes_max) };
        loop {
            // A process that reported its end must be dead by then.
            let gone_by = run.said_at.map(|at| at + EXIT_TIMEOUT);
            let until = bounds.look_at().min(gone_by.unwrap_or(bounds.memory.look_at));
            let cancel = around.cancel.filter(|_| killed.is_none());
            let heard = self
                .ends
                .step(&mut run, until, cancel.as_slice())
                .map_err(|e| Problem::internal(Code::Worker, "cannot watch the worker").cause(e))?;
            if heard.dead {
                break;
            }
            if run.said.is_some() && !released {
                // By now it is on its way out, which takes longer than all that came after its last words.
                released = true;
                if (around.spare)() {
                    ringfence_sys::release_memory(&self.ends.pidfd);
                }
            }
            // A process that reports its end and lives on is not believed.
            if run.said_at.is_some_and(|at| at.elapsed() >= EXIT_TIMEOUT) {
                (run.said, run.said_at) = (None, None);
            }
            if let Some(exceeded) = bounds.exceeded(heard) {
                cpu = cpu_so_far(self.host_pid);
                self.ends.kill();
                killed = Some(exceeded);
                // It is dying: only its death is waited for.
                bounds.deadline = None;
                bounds.memory.bytes_max = None;
            }
        }
        let wall = began.elapsed();
        self.ends.drain(&mut run);
        let ended = match (&run.said, killed) {
            _ if run.refused.is_some() => Ended::Refused,
            (_, Some(Exceeded::Cancelled)) => Ended::Cancelled,
            (_, Some(Exceeded::Deadline)) => Ended::Deadline,
            (_, Some(Exceeded::Memory)) => Ended::Memory,
            (Some(_), None) => Ended::Done,
            (None, None) => Ended::Silently(None),
        };
        let workspace = self.workspace.take();
        let workspace = workspace
            .ok_or_else(|| Problem::internal(Code::Worker, "a worker without a workspace"))?;
        Ok(Finished {
            ended,
            refused: run.refused.take(),
            cpu: cpu.or(run.said_cpu()).unwrap_or_default(),
            said: run.said,
            stdout: run.stdout,
            stderr: run.stderr,
            wall,
            first_byte: run.first_byte,
            artifacts: Artifacts::new(workspace),
            pid: self.pid,
            mounts: self.mounts.take(),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ends.kill();
    }
}

/// Bounds of a program or a cell.
pub(crate) struct Bounds {
    pub(crate) deadline: Option<Instant>,
    pub(crate) memory: MemoryWatch,
}

/// Reason to end a program or a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Cancelled,
    Deadline,
    Memory,
}

impl Bounds {
    /// Time of the next look.
    pub(crate) fn look_at(&self) -> Instant {
        self.deadline.map_or(self.memory.look_at, |at| at.min(self.memory.look_at))
    }

    /// Looks, after an event or at [`Self::look_at`].
    pub(crate) fn exceeded(&mut self, heard: PollResult) -> Option<Exceeded> {
        // First: it says when the next look is.
        let is_memory_past = self.memory.is_past();
        match () {
            () if heard.cancelled => Some(Exceeded::Cancelled),
            () if is_memory_past => Some(Exceeded::Memory),
            () if self.deadline.is_some_and(|at| Instant::now() >= at) => Some(Exceeded::Deadline),
            () => None,
        }
    }
}

/// Lifetime of a process after its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRun {
    /// It ends.
    Single,
    /// It begins on the `B` frame, and ends.
    OncePermitted,
    /// It waits for the next.
    Kept,
}

/// One frame of a process's input.
pub(crate) enum InputFrame<'a> {
    /// A piece of a file.
    File { name: &'a str, chunk: &'a [u8] },
    /// A piece of the program.
    Code(&'a [u8]),
    /// Go: flags and arguments, and the rest of the program.
    Go { how: Vec<u8>, code: &'a [u8] },
}

impl InputFrame<'_> {
    pub(crate) fn send(&self, channel: &OwnedFd) -> Result<(), CallError> {
        self.send_by(|kind, body| channel::send(channel, kind, body, &[]))
    }

    fn send_by<T>(&self, send: impl FnOnce(u8, &[&[u8]]) -> T) -> T {
        match self {
            Self::File { name, chunk } => send(b'F', &[name.as_bytes(), b"\0", chunk]),
            Self::Code(chunk) => send(b'C', &[chunk]),
            Self::Go { how, code } => send(b'J', &[how, code]),
        }
    }
}

/// A job in frames.
pub(crate) fn parts(job: &Job, fate: AfterRun) -> impl Iterator<Item = InputFrame<'_>> {
    let files = job.files.iter().flat_map(|(name, content)| {
        let mut chunks = content.chunks(CHUNK_BYTES);
        // An empty file has no chunk, and still exists.
        let first = chunks.next().unwrap_or_default();
        std::iter::once(first).chain(chunks).map(|chunk| InputFrame::File { name, chunk })
    });
    // A short program needs no frame of its own.
    let (before, with) = if job.code.len() <= CHUNK_BYTES / 2 {
        (&[][..], &job.code[..])
    } else {
        (&job.code[..], &[][..])
    };
    let code = before.chunks(CHUNK_BYTES).map(InputFrame::Code);
    let how = how(job, fate);
    files.chain(code).chain(std::iter::once(InputFrame::Go { how, code: with }))
}

/// Serializes the parameters of a program: flags, its name, the number of its arguments, the arguments; each ended by a
/// zero.
fn how(job: &Job, fate: AfterRun) -> Vec<u8> {
    let mut how = Vec::new();
    how.extend(job.value.then_some(b'v'));
    how.extend(job.own_modules.then_some(b'm'));
    match fate {
        AfterRun::Single => {}
        AfterRun::OncePermitted => how.push(b'w'),
        AfterRun::Kept => how.push(b'k'),
    }
    let n_arguments = job.argv.len().to_string();
    let fields = [job.name.as_deref().unwrap_or_default(), &n_arguments];
    for field in [""].into_iter().chain(fields).chain(job.argv.iter().map(String::as_str)) {
        // For the kernel, too, names and arguments end at a zero.
        how.extend(field.bytes().take_while(|byte| *byte != 0));
        how.push(0);
    }
    how
}

/// Result of one wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollResult {
    /// The process is dead.
    pub(crate) dead: bool,
    /// The caller cancelled it.
    pub(crate) cancelled: bool,
}

impl Ends {
    /// Returns true if it died while it waited.
    pub(crate) fn is_dead(&self) -> bool {
        ringfence_sys::is_ready(&self.pidfd, PollFlags::IN)
    }

    /// Sends it a program. Waits for a process that reads slowly, but not past its death, the deadline or a cancellation:
    /// the next [`Ends::step`] reports which of them it was.
    pub(crate) fn give(
        &self,
        job: &Job,
        fate: AfterRun,
        deadline: Option<Instant>,
        cancel: &[BorrowedFd<'_>],
    ) -> Result<(), CallError> {
        parts(job, fate).try_for_each(|part| {
            part.send_by(|kind, body| self.send_until(kind, body, deadline, cancel))
        })
    }

    /// Sends it one frame, with the same bounds.
    fn send_until(
        &self,
        kind: u8,
        body: &[&[u8]],
        deadline: Option<Instant>,
        cancel: &[BorrowedFd<'_>],
    ) -> Result<(), CallError> {
        channel::send_while(&self.channel, kind, body, &[], || {
            let mut fds = vec![
                PollFd::new(&self.channel, PollFlags::OUT),
                PollFd::new(&self.pidfd, PollFlags::IN),
            ];
            fds.extend(cancel.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
            let patience = deadline.map(ringfence_sys::time_until);
            let n = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, patience.as_ref()))
                .named(|| "poll(worker)")?;
            Ok(n > 0 && fds[1..].iter().all(|fd| fd.revents().is_empty()))
        })
    }

    /// Waits for any event until then, and handles it.
    pub(crate) fn step(
        &mut self,
        run: &mut Run<'_>,
        until: Instant,
        cancel: &[BorrowedFd<'_>],
    ) -> Result<PollResult, CallError> {
        let patience = Some(ringfence_sys::time_until(until));
        let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
        let mut sources = vec![Source::Death];
        if run.listening {
            fds.push(PollFd::new(&self.channel, PollFlags::IN));
            sources.push(Source::Channel);
        }
        let streams = [
            (&self.stdout, Source::Stdout, PollFlags::IN),
            (&self.stderr, Source::Stderr, PollFlags::IN),
            (&self.stdin, Source::Stdin, PollFlags::OUT),
        ];
        for (stream, source, wanted) in streams {
            if let Some(stream) = stream {
                fds.push(PollFd::new(stream, wanted));
                sources.push(source);
            }
        }
        for cancel in cancel {
            fds.push(PollFd::from_borrowed_fd(*cancel, PollFlags::IN));
            sources.push(Source::Cancel);
        }
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, patience.as_ref()))
            .named(|| "poll(worker)")?;
        let ready: Vec<Source> = fds
            .iter()
            .zip(sources)
            .filter(|(fd, _)| !fd.revents().is_empty())
            .map(|(_, source)| source)
            .collect();
        drop(fds);
        for source in &ready {
            match source {
                Source::Death | Source::Cancel => {}
                Source::Channel => self.hear(run),
                Source::Stdout => run.read(&mut self.stdout, Source::Stdout),
                Source::Stderr => run.read(&mut self.stderr, Source::Stderr),
                Source::Stdin => self.feed(run),
            }
        }
        Ok(PollResult {
            dead: ready.contains(&Source::Death),
            cancelled: ready.contains(&Source::Cancel),
        })
    }

    /// Reads one frame of the guest's: begun, progress, call, refusal or final report. Anything else ends the reading.
    fn hear(&self, run: &mut Run<'_>) {
        let said = match channel::receive(&self.channel, RecvFlags::DONTWAIT) {
            Ok(Some(frame)) if frame.kind == b'D' => GuestReport::read(&frame.body),
            // From here on a refusal is not believed.
            Ok(Some(frame)) if frame.kind == b'G' => {
                run.begun = true;
                return;
            }
            Ok(Some(frame)) if frame.kind == b'P' && run.begun => {
                if let Some(output) = run.output {
                    output.set_note(shown(&frame.body));
                }
                return;
            }
            Ok(Some(frame)) if frame.kind == b'q' && run.begun => {
                if run.calls.begin(&frame) {
                    return;
                }
                None
            }
            Ok(Some(frame)) if frame.kind == b'Q' && run.begun => {
                if run.calls.take(&self.channel, &frame) {
                    return;
                }
                None
            }
            // It could not take its input, and has run nothing.
            Ok(Some(frame)) if frame.kind == b'E' && !run.begun => {
                run.refused = Some(shown(&frame.body));
                None
            }
            // ECONNRESET is returned once for a guest that left data unread; its frames follow.
            Err(error) if matches!(error.errno, Errno::AGAIN | Errno::CONNRESET) => return,
            // Gone or malformed: its death, or the deadline, decides. Nothing more is read.
            _ => None,
        };
        run.said = said;
        run.listening = false;
        run.said_at = run.said.as_ref().map(|_| Instant::now());
    }

    fn feed(&mut self, run: &mut Run<'_>) {
        let Some(stdin) = &self.stdin else { return };
        match rustix::io::write(stdin, run.unread) {
            Ok(n) => run.unread = &run.unread[n..],
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => run.unread = &[],
        }
        if run.unread.is_empty() {
            self.stdin = None;
        }
    }

    /// Duplicates the ends, without stdin.
    pub(crate) fn try_clone(&self) -> Result<Self, CallError> {
        let again = |fd: &OwnedFd| fd.try_clone().named(|| "dup");
        self.of_fork(again(&self.channel)?, again(&self.pidfd)?)
    }

    /// Ends of a process that was forked from this one: it writes to the same streams.
    pub(crate) fn of_fork(&self, channel: OwnedFd, pidfd: OwnedFd) -> Result<Self, CallError> {
        let stream =
            |fd: &Option<OwnedFd>| fd.as_ref().map(|fd| fd.try_clone().named(|| "dup")).transpose();
        let (stdout, stderr) = (stream(&self.stdout)?, stream(&self.stderr)?);
        Ok(Self { channel, pidfd, stdin: None, stdout, stderr })
    }

    /// Reads the output that it wrote before it died and that is still in the pipes.
    pub(crate) fn drain(&mut self, run: &mut Run<'_>) {
        for _ in 0..2 {
            if run.listening {
                self.hear(run);
            }
        }
        self.drain_streams(run);
    }

    /// Reads the bytes that are in the pipes now, and no more than a pipe can hold: the process may go on writing.
    pub(crate) fn drain_streams(&mut self, run: &mut Run<'_>) {
        for source in [Source::Stdout, Source::Stderr] {
            let stream = if source == Source::Stdout { &mut self.stdout } else { &mut self.stderr };
            let first = run.stdout.total_bytes + run.stderr.total_bytes;
            let mut before = None;
            loop {
                let n_read = run.stdout.total_bytes + run.stderr.total_bytes - first;
                if n_read >= DRAIN_BYTES_MAX || before.replace(n_read) == Some(n_read) {
                    break;
                }
                run.read(stream, source);
            }
        }
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Stops the process: nothing of it runs until [`Ends::resume`], whatever it reported.
    pub(crate) fn pause(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::STOP);
    }

    /// Resumes the process.
    pub(crate) fn resume(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::CONT);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Death,
    Cancel,
    Channel,
    Stdout,
    Stderr,
    Stdin,
}

/// A running program.
pub(crate) struct Run<'a> {
    began: Instant,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) said: Option<GuestReport>,
    pub(crate) listening: bool,
    refused: Option<String>,
    /// The program began, or has no files that could not be written before.
    begun: bool,
    said_at: Option<Instant>,
    buffer: Vec<u8>,
    unread: &'a [u8],
    output: Option<&'a OutputBuffer>,
    calls: Calls,
}

impl<'a> Run<'a> {
    pub(crate) fn new(began: Instant, stdin: &'a [u8], job: &'a Job) -> Self {
        Self {
            began,
            stdout: Output::new(job.output_bytes_max),
            stderr: Output::new(job.output_bytes_max),
            first_byte: None,
            said: None,
            listening: true,
            refused: None,
            begun: job.files.is_empty(),
            said_at: None,
            buffer: Vec::new(),
            unread: stdin,
            output: job.output.as_ref(),
            calls: Calls::new(job.broker.clone()),
        }
    }

    /// CPU time as the guest counted it.
    pub(crate) fn said_cpu(&self) -> Option<Duration> {
        let seconds = self.said.as_ref()?.cpu_s;
        (0.0..1e6).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
    }

    fn read(&mut self, stream: &mut Option<OwnedFd>, source: Source) {
        let Some(fd) = stream else { return };
        self.buffer.clear();
        self.buffer.reserve(READ_BYTES);
        match rustix::io::read(fd, rustix::buffer::spare_capacity(&mut self.buffer)) {
            Ok(0) => *stream = None,
            Ok(_) => {
                self.first_byte.get_or_insert_with(|| self.began.elapsed());
                let (output, add): (_, fn(&OutputBuffer, &[u8])) = match source {
                    Source::Stdout => (&mut self.stdout, OutputBuffer::add_stdout),
                    _ => (&mut self.stderr, OutputBuffer::add_stderr),
                };
                output.push(&self.buffer);
                if let Some(output) = self.output {
                    add(output, &self.buffer);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => *stream = None,
        }
    }
}

/// Makes text of the guest's fit to be shown: short, on one line, printable.
pub(crate) fn shown(words: &[u8]) -> String {
    const SHOWN_MAX: usize = 300;
    let text = String::from_utf8_lossy(words);
    text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Checks memory that no kernel limit counts, at intervals.
pub(crate) struct MemoryWatch {
    host_pid: u32,
    bytes_max: Option<u64>,
    /// Time of the next check, however many other events come before.
    pub(crate) look_at: Instant,
}

impl MemoryWatch {
    pub(crate) fn new(host_pid: u32, bytes_max: Option<u64>) -> Self {
        Self { host_pid, bytes_max, look_at: Instant::now() + MEMORY_INTERVAL }
    }

    /// Returns true if a check is due and the process exceeds its limit.
    pub(crate) fn is_past(&mut self) -> bool {
        let now = Instant::now();
        if now < self.look_at {
            return false;
        }
        self.look_at = now + MEMORY_INTERVAL;
        self.bytes_max.is_some_and(|max| {
            let most = max.saturating_add(MEMORY_SLACK_BYTES);
            anonymous_bytes(self.host_pid).is_some_and(|bytes| bytes > most)
        })
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
