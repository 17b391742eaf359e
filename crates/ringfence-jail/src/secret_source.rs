//! Reads the values of secrets on the host: once before a run, and again during it when the network helper asks, because
//! a value may be replaced while a long run uses it. The supervisor never waits for a source.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_spec::{SECRET_BYTES_MAX, SecretGrant, SecretSource};
use ringfence_sys::untrusted::read_trusted;
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, Signal};

/// Values shorter than this cannot be told from other text.
const VALUE_BYTES_MIN: usize = 8;

/// Time that a command may take to print a value and end.
const COMMAND_MAX: Duration = Duration::from_secs(30);

/// Least time between two readings of one source: a helper that asks all the time gets no more.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Working directory of a command that runs again. In its first one the run may have left something.
const REREAD_DIR: &str = "/";

/// Reads a value, waiting for a command to print it. Without a thread: a process that has one cannot fork a run.
pub fn read_secret(
    grant: &SecretGrant,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<String, String> {
    match &grant.source {
        SecretSource::Variable(variable) => match environment.get(OsStr::new(variable)) {
            Some(value) => value
                .to_str()
                .map(|value| checked(value.as_bytes().to_vec()))
                .ok_or_else(|| format!("the variable `{variable}` is not text"))?,
            None => Err(format!("there is no variable `{variable}`")),
        },
        SecretSource::File(path) => read_file(path),
        SecretSource::Command(command) => {
            let mut running = SecretCommand::start(command, environment, None)?;
            loop {
                // At the deadline `step` says so.
                ringfence_sys::ready_by(running.fd(), PollFlags::IN, running.until)
                    .map_err(|e| e.to_string())?;
                if let Some(value) = running.step() {
                    return value;
                }
            }
        }
    }
}

fn read_file(path: &Path) -> Result<String, String> {
    let bytes = read_trusted(path, SECRET_BYTES_MAX);
    checked(bytes.map_err(|e| format!("`{}`: {e}", path.display()))?)
}

/// Checks that a value can be sent in a header, and removes a final newline.
fn checked(mut bytes: Vec<u8>) -> Result<String, String> {
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    // A placeholder differs from its value in these alone.
    let n_drawn = bytes.iter().filter(|byte| byte.is_ascii_alphanumeric()).count();
    let problem = if n_drawn < VALUE_BYTES_MIN {
        format!("it has fewer than {VALUE_BYTES_MIN} letters and digits")
    } else if !bytes.iter().all(u8::is_ascii_graphic) {
        "it has spaces, control characters or other characters that no header can carry".to_owned()
    } else {
        return String::from_utf8(bytes).map_err(|e| e.to_string());
    };
    bytes.fill(0);
    Err(problem)
}

/// A command of the operator's that prints a value. It and its children are killed when it is dropped.
struct SecretCommand {
    command: String,
    child: Child,
    /// Readable when the command has ended.
    ended: OwnedFd,
    /// `None` after its end.
    stdout: Option<ChildStdout>,
    printed: Vec<u8>,
    until: Instant,
}

impl SecretCommand {
    fn start(
        command: &str,
        environment: &BTreeMap<OsString, OsString>,
        dir: Option<&str>,
    ) -> Result<Self, String> {
        let cannot = |e: &dyn std::fmt::Display| format!("`{command}`: {e}");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).env_clear().envs(environment);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Its own group, so that a pipeline is ended as a whole.
        shell.process_group(0);
        if let Some(dir) = dir {
            shell.current_dir(dir);
        }
        let mut child = shell.spawn().map_err(|e| cannot(&e))?;
        let stdout = child.stdout.take();
        let ended = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(|e| cannot(&e))?;
        let until = Instant::now() + COMMAND_MAX;
        Ok(Self { command: command.to_owned(), child, ended, stdout, printed: Vec::new(), until })
    }

    /// The descriptor to wait on: its output, then its end.
    fn fd(&self) -> BorrowedFd<'_> {
        self.stdout.as_ref().map_or(self.ended.as_fd(), AsFd::as_fd)
    }

    /// Goes on without waiting. The value, or the reason that there is none, at the end.
    fn step(&mut self) -> Option<Result<String, String>> {
        let command = &self.command;
        if !ringfence_sys::is_ready(self.fd(), PollFlags::IN) {
            let late = || format!("`{command}` took longer than {} s", COMMAND_MAX.as_secs());
            return (Instant::now() >= self.until).then(|| Err(late()));
        }
        let Some(stdout) = &mut self.stdout else { return Some(self.end()) };
        let mut buffer = [0u8; 4096];
        let read = stdout.read(&mut buffer);
        if let Ok(n) = read {
            self.printed.extend_from_slice(&buffer[..n]);
        }
        buffer.fill(0);
        match read {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => None,
            Err(error) => Some(Err(error.to_string())),
            Ok(1..) if self.printed.len() as u64 > SECRET_BYTES_MAX => {
                Some(Err(format!("`{command}` prints more than {SECRET_BYTES_MAX} bytes")))
            }
            Ok(1..) => None,
            Ok(0) => {
                self.stdout = None;
                None
            }
        }
    }

    /// The value that a command has printed which has ended.
    fn end(&mut self) -> Result<String, String> {
        let command = &self.command;
        match self.child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => checked(std::mem::take(&mut self.printed)),
            Some(status) => Err(format!("`{command}` ended with {status}")),
            None => Err(format!("`{command}` does not end")),
        }
    }
}

impl Drop for SecretCommand {
    fn drop(&mut self) {
        self.printed.fill(0);
        let group = Pid::from_child(&self.child);
        // Before it is waited for: until then its id is no other group's.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A secret that was to be read again.
pub(crate) struct Reread {
    /// Place of the secret in the policy.
    pub(crate) index: usize,
    /// A memory file with the value; `None` if the one that the helper has is as new.
    pub(crate) value: Result<Option<OwnedFd>, String>,
}

/// Reads secrets again for a run's network helper.
#[derive(Default)]
pub(crate) struct SecretReader {
    /// Each at its place in the policy; `None` for one that is read once.
    grants: Vec<Option<SecretGrant>>,
    /// Time of the last reading of each.
    last: Vec<Option<Instant>>,
    running: Vec<(usize, SecretCommand)>,
}

impl SecretReader {
    pub(crate) fn new(grants: Vec<Option<SecretGrant>>) -> Self {
        let last = vec![None; grants.len()];
        Self { grants, last, running: Vec::new() }
    }

    /// Name of a secret.
    pub(crate) fn name(&self, index: usize) -> &str {
        let grant = self.grants.get(index).and_then(Option::as_ref);
        grant.map_or("", |grant| grant.name.as_str())
    }

    /// Reads one again: a file at once, a command's output by and by. `None` if the answer comes later.
    pub(crate) fn ask(&mut self, index: usize) -> Option<Reread> {
        let answer = |value| Some(Reread { index, value });
        let Some(Some(grant)) = self.grants.get(index) else { return answer(Ok(None)) };
        if self.running.iter().any(|(running, _)| *running == index) {
            return None;
        }
        let now = Instant::now();
        if self.last[index].is_some_and(|last| now < last + PAUSE_MIN) {
            return answer(Ok(None));
        }
        self.last[index] = Some(now);
        match &grant.source {
            // The caller's environment does not change any more.
            SecretSource::Variable(_) => answer(Ok(None)),
            SecretSource::File(path) => answer(read_file(path).and_then(into_memory)),
            SecretSource::Command(command) => {
                let environment: BTreeMap<_, _> = std::env::vars_os().collect();
                // A launcher that a library executed has none, and most commands need some.
                if environment.is_empty() {
                    return answer(Err("this service runs a command once; use `file:`".to_owned()));
                }
                match SecretCommand::start(command, &environment, Some(REREAD_DIR)) {
                    Ok(running) => {
                        self.running.push((index, running));
                        None
                    }
                    Err(why) => answer(Err(why)),
                }
            }
        }
    }

    /// Descriptors that are readable when a command prints something or ends.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.iter().map(|(_, running)| running.fd())
    }

    /// Takes a value that a command has printed.
    pub(crate) fn step(&mut self) -> Option<Reread> {
        for at in 0..self.running.len() {
            let (index, running) = &mut self.running[at];
            let index = *index;
            if let Some(value) = running.step() {
                self.running.remove(at);
                return Some(Reread { index, value: value.and_then(into_memory) });
            }
        }
        None
    }
}

fn into_memory(value: String) -> Result<Option<OwnedFd>, String> {
    let mut bytes = value.into_bytes();
    let memory = ringfence_sys::memory_file("ringfence-value", &bytes);
    bytes.fill(0);
    memory.map(Some).map_err(|e| e.to_string())
}
