//! Text for people on stderr, data on stdout.

use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_spec::invisible::escape_unseen;
use ringfence_spec::{
    Code, Denial, DenialRule, DeniedBy, Layer, Outcome, Problem, Status, escape_json, escape_name,
};
use rustix::event::PollFlags;
use rustix::fs::FileType;
use serde::Serialize;

use crate::style::{self, Look, Stream, paint};

/// Prints a problem and returns its exit code.
pub(crate) fn problem(problem: &Problem) -> ExitCode {
    let code = ExitCode::from(problem.kind.exit_code());
    if !takes_text(rustix::stdio::stderr()) {
        return code;
    }
    let mut err = std::io::stderr().lock();
    // A closed stderr cannot be reported.
    let red = paint(Stream::Stderr, Look::Bad, "error:");
    let _ = writeln!(err, "{red} {}", plain(&problem.message, Lines::One));
    if let Some(cause) = &problem.cause {
        // Some causes have several lines. Indent them, so that none looks like one of ours.
        let cause = plain(cause, Lines::Many).replace('\n', "\n    ");
        let _ = writeln!(err, "  cause: {cause}");
    }
    if let Some(hint) = &problem.hint {
        let name = paint(Stream::Stderr, Look::Hint, "hint:");
        let _ = writeln!(err, "  {name} {}", plain(&hint.to_string(), Lines::One));
    }
    if style::is_verbose() {
        let _ = writeln!(err, "  code: {}", problem.code);
    }
    code
}

/// Set if output on stdout was lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// Set if the reader of stdout has closed it.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns true if the reader of stdout has closed it: it wants no more.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Returns true unless stdout is closed or has lost output: more would be lost too.
pub(crate) fn can_print() -> bool {
    !is_closed() && !LOST.load(Ordering::Relaxed)
}

/// Stdout for a writer that reports its own errors; notices a reader that has closed it.
pub(crate) struct Stdout;

impl io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noticing_close(io::stdout().lock().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noticing_close(io::stdout().lock().flush())
    }
}

fn noticing_close<T>(written: io::Result<T>) -> io::Result<T> {
    if written.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        CLOSED.store(true, Ordering::Relaxed);
    }
    written
}

/// Prints one JSON object on stdout.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&(escape_json(text) + "\n")),
        Err(_) => record(Err(io::ErrorKind::InvalidData.into())),
    };
}

/// Returns `code`, or reports an error if output was lost. A closed stdout is none: its reader wanted no more.
pub(crate) fn all_printed(code: ExitCode) -> ExitCode {
    record(Stdout.flush());
    if !LOST.load(Ordering::Relaxed) {
        return code;
    }
    problem(&Problem::cannot_build(Code::Stdout, "cannot write all of the answer to stdout"))
}

/// Records lost output. Returns false if there was some; a closed stdout is no loss.
fn record(written: io::Result<()>) -> bool {
    let is_lost = written.is_err_and(|e| e.kind() != io::ErrorKind::BrokenPipe);
    LOST.fetch_or(is_lost, Ordering::Relaxed);
    !is_lost
}

/// Prints a note on stderr, unless `--quiet` is given.
pub(crate) fn note(text: &str) {
    if !style::is_quiet() {
        warn(text);
    }
}

/// Prints a detail on stderr if `--verbose` is given.
pub(crate) fn detail(text: &str) {
    if style::is_verbose() {
        warn(text);
    }
}

/// Prints a warning on stderr, also with `--quiet`.
pub(crate) fn warn(text: &str) {
    if !takes_text(rustix::stdio::stderr()) {
        return;
    }
    let name = paint(Stream::Stderr, Look::Faint, "ringfence:");
    // A closed stderr cannot be reported.
    let _ = writeln!(io::stderr().lock(), "{name} {}", plain(text, Lines::One));
}

/// Prints the id, the tier and the usage of a run if `--verbose` is given.
pub(crate) fn details(outcome: &Outcome) {
    if !style::is_verbose() {
        return;
    }
    let tier =
        outcome.enforcement.as_ref().map_or_else(|| "none".to_owned(), |e| e.tier.to_string());
    let usage = &outcome.usage;
    let memory = usage.memory_peak_bytes.map_or_else(|| "?".to_owned(), crate::table::size);
    let status = serde_json::to_value(outcome.status).unwrap_or_default();
    let status = status.as_str().unwrap_or("?");
    detail(&format!("run {}, {status}, tier {tier}", outcome.run_id));
    detail(&format!("wall {:.0} ms, CPU {:.0} ms, memory {memory}", usage.wall_ms, usage.cpu_ms));
    for gap in outcome.enforcement.iter().flat_map(|e| &e.gaps) {
        detail(&format!("not enforced: {gap}"));
    }
}

/// Prints the guarantees that could not be verified after a run.
pub(crate) fn gaps(gaps: &[String]) {
    for gap in gaps.iter().take(lines_max()) {
        warn(&format!("not verified: {gap}"));
    }
}

/// Maximum lines of one kind on stderr.
const LINES_MAX: usize = 5;

/// The same, or no maximum with `--verbose`.
pub(crate) fn lines_max() -> usize {
    if style::is_verbose() { usize::MAX } else { LINES_MAX }
}

/// Prints on stderr why screening refused a program; returns false if it did not.
pub(crate) fn screening(outcome: &Outcome) -> bool {
    if outcome.status != Status::Blocked || outcome.denials.is_empty() {
        return false;
    }
    let preset = outcome.enforcement.as_ref().and_then(|enforcement| enforcement.screen.as_ref());
    if let Some(preset) = preset {
        warn(&format!("the preset `{preset}` refuses the program:"));
    }
    for denial in outcome.denials.iter().take(lines_max()) {
        let (line, column) = (denial.line.unwrap_or(0), denial.column.unwrap_or(0));
        let subject = escape_name(&denial.subject);
        warn(&format!("{line}:{column}: {} `{subject}`", denial.rule));
        note(&format!("  hint: {}", denial.hint));
    }
    true
}

/// Prints on stderr why a passthrough run was stopped, and its denials, but for those about `except`, which the caller
/// explains.
pub(crate) fn report(outcome: &Outcome, except: Option<&str>) {
    if !takes_text(rustix::stdio::stderr()) {
        return;
    }
    if let Some(error) = &outcome.error {
        warn(&error.message);
        if let Some(hint) = &error.hint {
            note(&format!("  hint: {hint}"));
        }
    }
    let reported = |denial: &&Denial| {
        is_reported(denial, outcome) && except.is_none_or(|subject| denial.subject != subject)
    };
    for denial in outcome.denials.iter().filter(reported).take(lines_max()) {
        let Denial { subject, hint, .. } = denial;
        match (&denial.program, denial.by) {
            // The interpreter's own words about a file name it in the hint.
            (_, DeniedBy::Guest) => note(&hint.to_string()),
            (Some(program), DeniedBy::Host) => {
                note(&format!("refused {subject} by {program}: {hint}"));
            }
            (None, DeniedBy::Host) => note(&format!("refused {subject}: {hint}")),
        }
    }
    for text in &outcome.notes {
        note(text);
    }
    for aside in outcome.workspace.set_aside.iter().take(lines_max()) {
        warn(&format!("renamed `{}` to `{}`: {}", aside.path, aside.moved_to, aside.reason));
    }
    let renamed = |name: &&String| outcome.workspace.set_aside.iter().any(|a| a.path == **name);
    let created = outcome.workspace.protected_created.iter().filter(|name| !renamed(name));
    if created.clone().count() > lines_max() {
        warn(&format!(
            "more than {LINES_MAX} protected names appeared during the run; `--json` lists them"
        ));
    }
    for name in created.take(lines_max()) {
        warn(&format!(
            "`{name}` appeared or was replaced during the run; look at it before anything obeys it"
        ));
    }
    details(outcome);
}

/// Returns true for a denial that a person should read. The rest is in the outcome.
fn is_reported(denial: &Denial, outcome: &Outcome) -> bool {
    match denial.by {
        // Node lists interfaces by netlink at its start, and goes on without them.
        DeniedBy::Host if denial.rule == DenialRule::Netlink => outcome.status != Status::Ok,
        // A limit that ended the run is its error, printed already.
        DeniedBy::Host => {
            outcome.error.as_ref().is_none_or(|error| error.message != denial.subject)
        }
        // Missing network and processes are told by the host; a file or module, once the program failed for it.
        DeniedBy::Guest => denial.layer == Layer::Filesystem && outcome.exception.is_some(),
    }
}

/// Number of lines a text may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    One,
    Many,
}

/// Makes every character of a text visible on a terminal. Names of files and programs and values from settings files
/// are untrusted: they could move the cursor, change the direction, or start a line that looks like ours.
fn plain(text: &str, lines: Lines) -> String {
    escape_unseen(text, |c| c == '\t' || (c == '\n' && lines == Lines::Many))
}

/// Returns true if a descriptor accepts text within a second: writing to a full pipe without a reader blocks forever.
fn takes_text(fd: BorrowedFd<'_>) -> bool {
    takes_within(fd, Duration::from_secs(1))
}

fn takes_within(fd: BorrowedFd<'_>, time: Duration) -> bool {
    ringfence_sys::is_ready_within(fd, PollFlags::OUT, time)
}

/// Writes a program's output to stdout. Gives up, with an error, on a reader that takes nothing for `patience`.
pub(crate) fn output(bytes: &[u8], patience: Duration) {
    let _ = io::stdout().flush();
    record(noticing_close(write_within(rustix::stdio::stdout(), bytes, patience)));
}

/// Writes a program's output to stderr, whose loss is not an error.
pub(crate) fn errors(bytes: &[u8], patience: Duration) {
    let _ = write_within(rustix::stdio::stderr(), bytes, patience);
}

/// Bytes that a pipe accepts without blocking once poll(2) reports it writable: `PIPE_BUF`.
const PIPE_BUF: usize = 4096;

fn write_within(fd: BorrowedFd<'_>, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
    let is_file = rustix::fs::fstat(fd)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    while !bytes.is_empty() {
        if !is_file && !takes_within(fd, patience) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let most = if is_file { bytes.len() } else { PIPE_BUF.min(bytes.len()) };
        match rustix::io::write(fd, &bytes[..most]) {
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Prints a line on stdout at once. Returns false if it was lost; a closed stdout is no loss.
pub(crate) fn line(line: &str) -> bool {
    record(Stdout.write_all(line.as_bytes()).and_then(|()| Stdout.flush()))
}

/// Writes what was printed.
pub(crate) fn flush() {
    record(Stdout.flush());
}

/// Prints text on stdout.
pub(crate) fn text(text: &str) {
    record(Stdout.write_all(text.as_bytes()));
}

/// Prints a line on stdout.
pub(crate) fn print_line(line: &str) {
    text(&format!("{line}\n"));
}

/// Returns the contract's exit code.
pub(crate) fn exit_code(outcome: &Outcome) -> u8 {
    match (outcome.status, outcome.exit_code, outcome.signal) {
        (Status::Blocked, _, _) => 126,
        (Status::Failed | Status::Rejected, _, _) => 125,
        (Status::Timeout, _, _) => 124,
        (Status::Memory, _, _) => 137,
        (_, Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1),
        (_, None, Some(number)) => u8::try_from(128 + number).unwrap_or(255),
        (_, None, None) => 125,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_chose_is_seen_and_obeyed_by_no_terminal() {
        let hostile = "a\u{1b}[31m\r\nringfence: fine\u{9b}\u{202e}é\t";
        let one = "a\\u{1b}[31m\\r\\nringfence: fine\\u{9b}\\u{202e}é\t";
        assert_eq!(plain(hostile, Lines::One), one);
        assert_eq!(plain(hostile, Lines::Many), one.replace("\\n", "\n"));
    }
}
