//! Anchors: signed copies of the head, kept outside the ledger. A key beside the ledger cannot show that the whole
//! directory was restored from an older copy; an anchor kept elsewhere can.

use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_spec::{Code, Problem};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::entry::now_ms;
use crate::head::ChainPosition;
use crate::keys::{PublicKey, Purpose, Signed};
use crate::ledger::Ledger;

/// Time limit for a command that takes a line.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum size of a file of anchors; one anchor is about 300 bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The signed position of the chain at one time: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The row.
    pub seq: i64,
    /// The chain's value after it.
    pub chain: Digest,
    /// Epoch of the signing key.
    pub epoch: i64,
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The public half of the ledger's first key.
    pub root: PublicKey,
    signature: Signed,
}

/// Stores anchors somewhere the ledger's owner cannot quietly rewrite.
pub trait Sink {
    /// Takes one line, without its line end.
    fn take(&mut self, line: &str) -> std::io::Result<()>;
}

/// Appends to a file elsewhere.
#[derive(Clone, Debug)]
pub struct FileSink(pub PathBuf);

/// Runs a command that gets the line on its standard input.
#[derive(Clone, Debug)]
pub struct CommandSink {
    /// The program to run.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Sink for FileSink {
    fn take(&mut self, line: &str) -> std::io::Result<()> {
        let mut file = std::fs::File::options().append(true).create(true).open(&self.0)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }
}

impl Sink for CommandSink {
    fn take(&mut self, line: &str) -> std::io::Result<()> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        // Far smaller than a pipe's capacity, so the write does not wait for a reader.
        let told = child.stdin.take().map(|mut stdin| writeln!(stdin, "{line}"));
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if began.elapsed() > COMMAND_TIME_MAX {
                let group = rustix::process::Pid::from_child(&child);
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                child.wait()?;
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        told.transpose()?;
        if status.success() { Ok(()) } else { Err(std::io::Error::other(status.to_string())) }
    }
}

impl<F: FnMut(&str) -> std::io::Result<()>> Sink for F {
    fn take(&mut self, line: &str) -> std::io::Result<()> {
        self(line)
    }
}

impl Ledger {
    /// Returns the current chain position, signed.
    pub fn anchor(&self) -> Result<Anchor, Problem> {
        let lost =
            || Problem::cannot_build(Code::LedgerCorrupt, "the ledger's first key is not there");
        let root = self.root_key().ok_or_else(lost)?;
        let mut store = self.store();
        let (place, epoch) = store.settled()?;
        let at_ms = now_ms();
        let ChainPosition { seq, chain } = place;
        let content: [&[u8]; 3] = [&seq.to_be_bytes(), chain.bytes(), &at_ms.to_be_bytes()];
        let signature = store.secret_of(epoch)?.sign(Purpose::Anchor, &content);
        Ok(Anchor { seq, chain, epoch, at_ms, root, signature })
    }

    /// Sends the current chain position to `sink`.
    pub fn anchor_to(&self, sink: &mut dyn Sink) -> Result<Anchor, Problem> {
        let anchor = self.anchor()?;
        let line = serde_json::to_string(&anchor).unwrap_or_default();
        sink.take(&line).map_err(|e| {
            Problem::cannot_build(Code::AnchorFailed, "cannot anchor the ledger's head").cause(e)
        })?;
        Ok(anchor)
    }
}

impl Anchor {
    /// Returns true if `key` signed the anchor.
    pub(crate) fn is_signed_by(&self, key: &PublicKey) -> bool {
        let seq = self.seq.to_be_bytes();
        let content: [&[u8]; 3] = [&seq, self.chain.bytes(), &self.at_ms.to_be_bytes()];
        key.has_signed(&self.signature, Purpose::Anchor, self.epoch, &content)
    }

    /// Reads a file of anchors, one per line.
    pub fn read_file(path: &Path) -> Result<Vec<Self>, Problem> {
        let wrong = |cause: String| {
            Problem::usage(Code::AnchorInvalid, format!("cannot read anchors from {path:?}"))
                .cause(cause)
        };
        let text = ringfence_sys::untrusted::read_trusted(path, FILE_BYTES_MAX)
            .map_err(|e| wrong(e.to_string()))?;
        let text = String::from_utf8(text).map_err(|e| wrong(e.to_string()))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(n, line)| {
                serde_json::from_str(line).map_err(|e| wrong(format!("line {}: {e}", n + 1)))
            })
            .collect()
    }
}
