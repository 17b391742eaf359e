//! The throwaway container one row is run in: namespaces, a tree and victims of its own, gone when its first
//! process ends. Nothing an attack does to it outlives it.
//!
//! Its root is nobody on the host: an ordinary caller, or for a root caller an id that owns nothing. Only rows behind
//! the whole fence may run as the host's root ([`Owner::HostRoot`]), because what Ringfence does for root differs.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ringfence_sys::{CallError, Forked, Named, Namespaces};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{DumpableBehavior, Gid, Signal, Uid};
use serde::{Deserialize, Serialize};

use crate::document::Named as NamedHost;
use crate::program::{HOME, WORKSPACE};
use crate::{tree, victims};

/// A row that takes longer hangs; the slowest of them takes a few seconds.
const ROW_MAX: Duration = Duration::from_mins(3);

/// Bytes of each stream that are kept for the report.
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// First of the ids a root caller's containers are mapped to: above what distributions, systemd, subordinate ids and
/// Ringfence's own stand-ins use.
const FOREIGN_FIRST: u32 = 2_000_000_000;

/// Whose container it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Owner {
    /// The caller's, an ordinary user's: uid 0 inside is the caller.
    Caller,
    /// A root caller's: uids from 0 inside are ids that own nothing outside.
    Foreign,
    /// A root caller's, without a user namespace.
    HostRoot,
}

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Directory with the binaries and a mount point.
    pub(crate) stage: PathBuf,
    pub(crate) owner: Owner,
    /// The secret.
    pub(crate) canary: String,
    /// A shell line before.
    pub(crate) setup: Option<String>,
    /// A shell line after.
    pub(crate) check: Option<String>,
    /// Names of the name server; with them every address is a victim's.
    pub(crate) names: Option<Vec<NamedHost>>,
    /// The program.
    pub(crate) argv: Vec<String>,
    /// What it reads.
    pub(crate) stdin: String,
}

/// What came of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// How the program ended, as the container's first process saw it.
    pub(crate) ended: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// What the check printed.
    pub(crate) check: Option<String>,
}

/// What the first process tells besides the program's own output.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    ended: String,
    check: Option<String>,
}

/// Runs the job on stdin and prints the report. The process must have one thread.
pub(crate) fn main() -> ExitCode {
    let mut text = String::new();
    let result = std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| e.to_string())
        .and_then(|_| serde_json::from_str(&text).map_err(|e| e.to_string()))
        .and_then(|job| contain(&job));
    match result {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn contain(job: &Job) -> Result<Report, String> {
    let text = |e: std::io::Error| format!("pipe: {e}");
    let (go_read, go_write) = std::io::pipe().map_err(text)?;
    let (out_read, out_write) = std::io::pipe().map_err(text)?;
    let (err_read, err_write) = std::io::pipe().map_err(text)?;
    let (note_read, note_write) = std::io::pipe().map_err(text)?;
    let namespaces = match job.owner {
        Owner::Caller | Owner::Foreign => Namespaces::INITIAL,
        Owner::HostRoot => Namespaces::MOUNT.and(Namespaces::PID),
    };
    match ringfence_sys::fork_into(namespaces, None).map_err(|e| e.to_string())? {
        Forked::Child => {
            drop((go_write, out_read, err_read, note_read));
            let result = inside(job, go_read, out_write, err_write, note_write);
            // Whatever still lives in here ends with this process.
            ringfence_sys::exit_now(i32::from(result.is_err()))
        }
        Forked::Parent { pid, pidfd } => {
            drop((go_read, out_write, err_write, note_write));
            map_ids(pid, job.owner).map_err(|e| e.to_string())?;
            drop(go_write);
            let streams = [out_read.into(), err_read.into(), note_read.into()];
            let [stdout, stderr, note] = listen(&pidfd, streams)?;
            ringfence_sys::reap_pid(pid).map_err(|e| e.to_string())?;
            let note: Note = serde_json::from_str(&note)
                .map_err(|_| format!("the container ended early: {note}\n{stdout}\n{stderr}"))?;
            Ok(Report { ended: note.ended, check: note.check, stdout, stderr })
        }
    }
}

fn map_ids(pid: i32, owner: Owner) -> Result<(), CallError> {
    let write = |file: &str, text: String| {
        let file = format!("/proc/{pid}/{file}");
        std::fs::write(&file, &text).named(|| format!("write({file:?}, {text:?})"))
    };
    match owner {
        Owner::Caller => {
            write("setgroups", "deny".into())?;
            write("uid_map", format!("0 {} 1", rustix::process::geteuid().as_raw()))?;
            write("gid_map", format!("0 {} 1", rustix::process::getegid().as_raw()))
        }
        Owner::Foreign => {
            write("uid_map", format!("0 {FOREIGN_FIRST} 65536"))?;
            write("gid_map", format!("0 {FOREIGN_FIRST} 65536"))
        }
        Owner::HostRoot => Ok(()),
    }
}

/// Reads every stream to its end, which comes at the latest when the container is killed.
fn listen(pidfd: &OwnedFd, streams: [OwnedFd; 3]) -> Result<[String; 3], String> {
    let end = Instant::now() + ROW_MAX;
    let mut kept = [Vec::new(), Vec::new(), Vec::new()];
    let mut open = streams.map(Some);
    let mut buffer = vec![0u8; 64 << 10];
    let mut late = false;
    while open.iter().any(Option::is_some) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() && !late {
            late = true;
            // A process that is gone already is what we want.
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut fds: Vec<PollFd<'_>> =
            open.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let timeout = (!late).then_some(&timeout);
        match rustix::event::poll(&mut fds, timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(format!("poll: {e}")),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let slots = open.iter_mut().zip(&mut kept).filter(|(fd, _)| fd.is_some());
        for ((slot, kept), _) in slots.zip(ready).filter(|(_, ready)| *ready) {
            let n = slot.as_ref().map_or(Ok(0), |fd| rustix::io::read(fd, &mut buffer));
            match n {
                Ok(0) | Err(_) => *slot = None,
                Ok(n) => {
                    let room = OUTPUT_BYTES_MAX.saturating_sub(kept.len());
                    kept.extend_from_slice(&buffer[..n.min(room)]);
                }
            }
        }
    }
    let [out, err, note] = kept.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if late {
        return Err(format!("still running after {} s\n{out}\n{err}", ROW_MAX.as_secs()));
    }
    Ok([out, err, note])
}

/// The first process of the container.
fn inside(
    job: &Job,
    mut go: PipeReader,
    out: PipeWriter,
    err: PipeWriter,
    mut note: PipeWriter,
) -> Result<(), ()> {
    let result = go
        .read_to_end(&mut Vec::new())
        .map_err(|e| e.to_string())
        .and_then(|_| prepare(job).map_err(|e| e.to_string()))
        .and_then(|()| run(job, out, err));
    let text = match &result {
        Ok(note) => serde_json::to_string(note).unwrap_or_default(),
        Err(error) => error.clone(),
    };
    note.write_all(text.as_bytes()).map_err(|_| ())?;
    result.map(|_| ()).map_err(|_| ())
}

fn prepare(job: &Job) -> Result<(), CallError> {
    let mut rest = Namespaces::NETWORK.and(Namespaces::IPC).and(Namespaces::UTS);
    if job.owner != Owner::HostRoot {
        rest = rest.and(Namespaces::CGROUP);
    }
    if job.owner == Owner::Foreign {
        rustix::thread::set_thread_groups(&[]).named(|| "setgroups")?;
        rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)
            .named(|| "setresgid(0)")?;
        rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)
            .named(|| "setresuid(0)")?;
        // A change of uid closes `/proc/1`; an ordinary container's first process is open to its root.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
            .named(|| "prctl(PR_SET_DUMPABLE, 1)")?;
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .named(|| "prctl(PR_SET_PDEATHSIG)")?;
    ringfence_sys::unshare(rest)?;
    rustix::system::sethostname(b"victim").named(|| "sethostname")?;
    ringfence_sys::loopback_up()?;
    if job.names.is_some() {
        // Servers on the wildcard address then stand for every host of the internet.
        ringfence_sys::route_everything_to_loopback()?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    tree::build(&job.stage, job.owner)?;
    victims::place(&job.canary)
}

fn run(job: &Job, out: PipeWriter, err: PipeWriter) -> Result<Note, String> {
    victims::stand_by(&job.canary)?;
    victims::serve(&job.canary)?;
    if let Some(names) = &job.names {
        victims::serve_network(names)?;
    }
    if let Some(line) = &job.setup {
        let done = command(&["/bin/sh".into(), "-ec".into(), line.clone()], job)
            .output()
            .map_err(|e| format!("setup: {e}"))?;
        if !done.status.success() {
            return Err(format!("setup failed: {done:?}"));
        }
    }
    let status = program(job, out, err).map_err(|e| format!("{}: {e}", job.argv[0]))?;
    let check = match &job.check {
        None => None,
        Some(line) => {
            let done = command(&["/bin/sh".into(), "-c".into(), line.clone()], job)
                .output()
                .map_err(|e| format!("check: {e}"))?;
            Some(String::from_utf8_lossy(&done.stdout).into_owned())
        }
    };
    Ok(Note { ended: status.to_string(), check })
}

fn program(job: &Job, out: PipeWriter, err: PipeWriter) -> std::io::Result<ExitStatus> {
    let mut command = command(&job.argv, job);
    command.stdout(out).stderr(err);
    if !job.stdin.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever ends without reading it says why on its own streams.
        let _ = stdin.write_all(job.stdin.as_bytes());
    }
    child.wait()
}

/// A command as the victim would start it: in the project, with secrets in the environment.
fn command(argv: &[String], job: &Job) -> Command {
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .current_dir(WORKSPACE)
        .stdin(Stdio::null())
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", HOME)
        .env("USER", "victim")
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .env("SSH_AUTH_SOCK", crate::program::SOCKET)
        .env("AWS_SECRET_ACCESS_KEY", &job.canary)
        .env("GITHUB_TOKEN", &job.canary);
    for (name, value) in crate::program::words(&job.canary) {
        command.env(name, value);
    }
    command
}
