//! Reads the values of secrets on the host: once before a run, and again during it when the network helper asks, because
//! a value may be replaced while a long run uses it. Never waits for more than a source's own time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_spec::{SecretGrant, SecretSource};
use ringfence_sys::untrusted::read_trusted;
use rustix::event::PollFlags;

/// Values shorter than this cannot be told from other text.
const VALUE_BYTES_MIN: usize = 8;

/// The longest value.
const VALUE_BYTES_MAX: u64 = 16 << 10;

/// Time that a command may take to print a value.
const COMMAND_MAX: Duration = Duration::from_secs(30);

/// Time that a command has to end after it closed its output.
const END_MAX: Duration = Duration::from_secs(1);

/// Least time between two readings of one source: a helper that asks all the time gets no more.
const PAUSE_MIN: Duration = Duration::from_secs(1);

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
        SecretSource::File(path) => {
            let bytes = read_trusted(path, VALUE_BYTES_MAX);
            checked(bytes.map_err(|e| format!("`{}`: {e}", path.display()))?)
        }
        SecretSource::Command(command) => {
            let mut printing = Printing::start(command, environment)?;
            loop {
                let ready =
                    ringfence_sys::ready_by(&printing.stdout, PollFlags::IN, printing.until);
                if let Some(value) = printing.step(ready.is_ok_and(|is_ready| is_ready)) {
                    return value;
                }
            }
        }
    }
}

/// Checks that a value can be sent in a header, and removes a final newline.
fn checked(mut bytes: Vec<u8>) -> Result<String, String> {
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    let problem = if bytes.len() < VALUE_BYTES_MIN {
        format!("it has fewer than {VALUE_BYTES_MIN} characters")
    } else if !bytes.iter().all(u8::is_ascii_graphic) {
        "it has spaces, control characters or other characters that no header can carry".to_owned()
    } else {
        return String::from_utf8(bytes).map_err(|e| e.to_string());
    };
    bytes.fill(0);
    Err(problem)
}

/// A command of the operator's that prints a value. Killed when it is dropped.
struct Printing {
    command: String,
    child: Child,
    stdout: ChildStdout,
    printed: Vec<u8>,
    until: Instant,
}

impl Printing {
    fn start(command: &str, environment: &BTreeMap<OsString, OsString>) -> Result<Self, String> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", command])
            .env_clear()
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("`{command}`: {e}"))?;
        let Some(stdout) = child.stdout.take() else { return Err("no output".to_owned()) };
        let until = Instant::now() + COMMAND_MAX;
        Ok(Self { command: command.to_owned(), child, stdout, printed: Vec::new(), until })
    }

    /// Reads what has been printed, if there is something. The value, or the reason that there is none, at the end.
    fn step(&mut self, is_readable: bool) -> Option<Result<String, String>> {
        let command = &self.command;
        if !is_readable {
            let is_late = Instant::now() >= self.until;
            let late = format!("`{command}` took longer than {} s", COMMAND_MAX.as_secs());
            return is_late.then_some(Err(late));
        }
        let mut buffer = [0u8; 4096];
        let read = self.stdout.read(&mut buffer);
        if let Ok(n) = read {
            self.printed.extend_from_slice(&buffer[..n]);
        }
        buffer.fill(0);
        match read {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => None,
            Err(error) => Some(Err(error.to_string())),
            Ok(1..) if self.printed.len() as u64 > VALUE_BYTES_MAX => {
                Some(Err(format!("`{command}` prints more than {VALUE_BYTES_MAX} bytes")))
            }
            Ok(1..) => None,
            Ok(0) => Some(self.end()),
        }
    }

    /// Waits a moment for the command, which has closed its output.
    fn end(&mut self) -> Result<String, String> {
        let command = &self.command;
        let until = Instant::now() + END_MAX;
        let status = loop {
            match self.child.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None if Instant::now() >= until => {
                    return Err(format!("`{command}` does not end"));
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        if !status.success() {
            return Err(format!("`{command}` ended with {status}"));
        }
        checked(std::mem::take(&mut self.printed))
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        self.printed.fill(0);
        // Ended already in the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A value that was read again, or the reason that it was not.
pub(crate) struct Reread {
    /// Place of the secret in the policy.
    pub(crate) index: usize,
    /// A memory file with the value.
    pub(crate) value: Result<OwnedFd, String>,
}

/// Sources that a run's network helper asks for again.
#[derive(Default)]
pub(crate) struct Sources {
    /// Each at its place in the policy; `None` for one that is read once.
    grants: Vec<Option<SecretGrant>>,
    /// Time of the last reading of each.
    last: Vec<Option<Instant>>,
    printing: Vec<(usize, Printing)>,
}

impl Sources {
    pub(crate) fn new(grants: Vec<Option<SecretGrant>>) -> Self {
        let last = vec![None; grants.len()];
        Self { grants, last, printing: Vec::new() }
    }

    /// Reads one again: a file at once, a command's output by and by. `None` if the answer comes later.
    pub(crate) fn ask(&mut self, index: usize) -> Option<Reread> {
        let failed = |why: &str| Some(Reread { index, value: Err(why.to_owned()) });
        let Some(Some(grant)) = self.grants.get(index) else { return failed("it is read once") };
        if self.printing.iter().any(|(printing, _)| *printing == index) {
            return None;
        }
        let now = Instant::now();
        if self.last[index].is_some_and(|last| now < last + PAUSE_MIN) {
            return failed("it was read a moment ago");
        }
        self.last[index] = Some(now);
        let environment = || std::env::vars_os().collect();
        match &grant.source {
            // The caller's environment does not change any more.
            SecretSource::Variable(_) => failed("a variable is read once"),
            SecretSource::File(_) => {
                let value = read_secret(grant, &BTreeMap::new());
                Some(Reread { index, value: value.and_then(into_memory) })
            }
            SecretSource::Command(command) => match Printing::start(command, &environment()) {
                Ok(printing) => {
                    self.printing.push((index, printing));
                    None
                }
                Err(why) => failed(&why),
            },
        }
    }

    /// Descriptors that are readable when a command prints something or ends.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.printing.iter().map(|(_, printing)| printing.stdout.as_fd())
    }

    /// Takes a value that a command has printed.
    pub(crate) fn step(&mut self) -> Option<Reread> {
        for at in 0..self.printing.len() {
            let (index, printing) = &mut self.printing[at];
            let index = *index;
            let is_readable = ringfence_sys::is_ready(&printing.stdout, PollFlags::IN);
            if let Some(value) = printing.step(is_readable) {
                self.printing.remove(at);
                return Some(Reread { index, value: value.and_then(into_memory) });
            }
        }
        None
    }
}

fn into_memory(value: String) -> Result<OwnedFd, String> {
    let mut bytes = value.into_bytes();
    let memory = ringfence_sys::memory_file("ringfence-value", &bytes);
    bytes.fill(0);
    memory.map_err(|e| e.to_string())
}
