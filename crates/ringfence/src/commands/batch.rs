//! `ringfence batch`: many programs through warm workers, JSON lines in and out.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ringfence_engine::cancel::{self, Cancel, CancelOnDrop};
use ringfence_engine::{
    Artifacts, Call, CodeCall, CommandCall, Engine, HostContext, LOCAL, Launcher, some_id,
};
use ringfence_spec::{Code, Outcome, Problem, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::{BatchArgs, PolicyFlags};
use crate::commands::exec::open_resolved;
use crate::commands::local::{self, Alerts};
use crate::commands::notify;
use crate::present;
use crate::progress::Bar;
use crate::settings::{Surroundings, effective, effective_code};
use crate::style;

/// Maximum length of an input line.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Maximum text of all files of an item together, with `collect`.
const COLLECT_BYTES_MAX: u64 = 8 << 20;

/// A line of the input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    id: Value,
    code: Option<String>,
    command: Option<Value>,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    files: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    collect: bool,
    timeout_ms: Option<u64>,
}

/// Runs every line. Exits 0 if every outcome was written.
pub(crate) fn batch(args: &BatchArgs) -> ExitCode {
    match attempt(args) {
        // The reader of the outcomes wanted no more, such as `head`.
        Ok(_) if present::is_closed() => ExitCode::SUCCESS,
        Ok(tally) => {
            present::note(&tally.to_string());
            ExitCode::from(u8::from(tally.n_lost > 0))
        }
        Err(problem) => present::problem(&problem),
    }
}

/// Counts of items by status.
#[derive(Debug, Default)]
pub(super) struct Tally {
    by_status: std::collections::BTreeMap<String, u64>,
    n_done: u64,
    n_skipped: u64,
    /// Lines whose outcome could not be written.
    n_lost: u64,
}

impl Tally {
    /// Writes an outcome by `put`, and counts it.
    pub(super) fn add(&mut self, status: String, put: impl FnOnce() -> bool) {
        if !put() {
            self.n_lost += 1;
        }
        self.n_done += 1;
        *self.by_status.entry(status).or_default() += 1;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} items", self.n_done)?;
        for (status, n) in &self.by_status {
            write!(f, ", {n} {status}")?;
        }
        if self.n_skipped > 0 {
            write!(f, "; {} were done before", self.n_skipped)?;
        }
        if self.n_lost > 0 {
            write!(f, "; {} outcomes could not be written", self.n_lost)?;
        }
        Ok(())
    }
}

fn attempt(args: &BatchArgs) -> Result<Tally, Problem> {
    let around = Surroundings::real(false)?;
    let mut code = effective_code(&args.policy.for_code(), &around)?;
    let n_parallel = args.jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        |n| n as usize,
    );
    // Most batches have no command, and need no command policy.
    let (commands, refused) = match effective(&args.policy.for_commands(), &around) {
        Ok(commands) => {
            (code.place.cwd, code.place.cwd_id) = (commands.place.cwd, commands.place.cwd_id);
            (Some((commands.policy, commands.remarks)), None)
        }
        Err(problem) => (None, Some(problem)),
    };
    local::make_ready(&mut code.place)?;
    // As the caller named them: not from the directory of commands.
    let here = HostContext { cwd: around.cwd.clone(), ..code.place.clone() };
    let named = |file: &Path| match file.to_str() {
        Some("-") => Ok(PathBuf::from("-")),
        _ => here.without_planted_links(file, "FILE"),
    };
    let resume = args.resume.as_deref().map(|file| open(&named(file)?, file)).transpose()?;
    let done = resume.map(done_before).unwrap_or_default();
    let given = args.file.as_deref().unwrap_or(Path::new("-"));
    let file = named(given)?;
    let total = Bar::is_shown().then(|| n_lines(&file)).flatten();
    let input = open(&file, given)?;
    let alerts = Alerts::default();
    let mut engine = local::for_code(code, &args.policy, &around, &alerts)?
        // Before any thread: the launcher is a fork of this process.
        .launcher(Launcher::start()?)
        .parallel(n_parallel);
    if let Some((policy, remarks)) = commands {
        engine = engine.command_policy(policy).command_remarks(remarks);
    }
    let engine = engine.build()?;
    engine.start_workers()?;
    let (cancel_on_drop, cancel) = cancel::pair()?;
    let shared = Shared {
        input: Mutex::new(Input { lines: input, n: 0 }),
        output: Mutex::new(Tally::default()),
        bar: Bar::new("items", total),
        done,
        cancel: Mutex::new(Some(cancel_on_drop)),
    };
    let station = BatchRunner {
        engine: &engine,
        cancel: &cancel,
        no_commands: refused,
        alerts: &alerts,
        flags: &args.policy,
    };
    std::thread::scope(|scope| {
        for _ in 0..n_parallel {
            scope.spawn(|| shared.work(&station));
        }
    });
    shared.bar.finish();
    Ok(shared.output.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Input {
    lines: Box<dyn std::io::BufRead + Send>,
    n: u64,
}

struct Shared {
    input: Mutex<Input>,
    output: Mutex<Tally>,
    bar: Bar,
    done: HashSet<String>,
    /// Cancels the items that run. Taken when the reader of the outcomes has gone.
    cancel: Mutex<Option<CancelOnDrop>>,
}

impl Shared {
    fn work(&self, station: &BatchRunner<'_>) {
        while let Some((number, line)) = self.next() {
            let answer = match line {
                Ok(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(line) => match serde_json::from_slice::<Item>(&line) {
                    Ok(item) if self.done.contains(&item.id.to_string()) => {
                        self.output.lock().unwrap_or_else(PoisonError::into_inner).n_skipped += 1;
                        self.bar.add(1);
                        continue;
                    }
                    Ok(item) => station.answer(&item),
                    Err(error) => refused(&line, number, &error.to_string()),
                },
                Err(why) => refused(b"", number, &why),
            };
            self.write(&answer);
        }
    }

    fn next(&self) -> Option<(u64, Result<Vec<u8>, String>)> {
        if present::is_closed() {
            return None;
        }
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = Vec::new();
        let mut limited = std::io::Read::take(&mut input.lines, LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut line);
        input.n += 1;
        let number = input.n;
        match read {
            Ok(0) => None,
            Ok(n) if n > LINE_BYTES_MAX => {
                // Skip the rest of the line.
                while !line.ends_with(b"\n") {
                    line.clear();
                    let mut more = std::io::Read::take(&mut input.lines, 1 << 16);
                    if more.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                        break;
                    }
                }
                Some((number, Err(format!("a line has at most {LINE_BYTES_MAX} bytes"))))
            }
            Ok(_) => Some((number, Ok(line))),
            Err(error) => {
                present::warn(&format!("cannot read the input: {error}"));
                None
            }
        }
    }

    fn write(&self, answer: &Value) {
        let (status, line) = line_of(answer);
        if style::is_verbose() {
            let wall = answer["usage"]["wall_ms"].as_f64().unwrap_or_default();
            self.bar
                .suspend(|| present::detail(&format!("{}: {status}, {wall:.0} ms", answer["id"])));
        }
        let mut tally = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        tally.add(status, || self.bar.suspend(|| present::line(&line)));
        drop(tally);
        if present::is_closed() {
            drop(self.cancel.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        self.bar.add(1);
    }
}

/// The status and the line of an answer: made by each thread for itself.
fn line_of(answer: &Value) -> (String, String) {
    let status = answer["status"].as_str().unwrap_or("failed").to_owned();
    let mut line = answer.to_string();
    line.push('\n');
    (status, line)
}

/// The engine and settings that items run with.
struct BatchRunner<'a> {
    engine: &'a Engine,
    cancel: &'a Cancel,
    /// Set if commands cannot be run.
    no_commands: Option<Problem>,
    alerts: &'a Alerts,
    flags: &'a PolicyFlags,
}

impl BatchRunner<'_> {
    fn answer(&self, item: &Item) -> Value {
        if item.timeout_ms == Some(0) {
            return problem(&item.id, "`timeout_ms` is 0");
        }
        let answer = match (&item.code, &item.command) {
            (Some(code), None) => self.code(item, code),
            (None, Some(command)) => self.command(item, command),
            _ => problem(&item.id, "an item has either `code` or `command`"),
        };
        notify::later(&self.alerts.take(), self.flags);
        answer
    }

    fn code(&self, item: &Item, code: &str) -> Value {
        if let Some(name) = item.files.keys().find(|name| !super::exec::is_plain_name(name)) {
            return problem(&item.id, &super::exec::invalid_name(name));
        }
        let files = item.files.iter();
        let call = Call::Code(CodeCall {
            code: code.as_bytes().to_vec(),
            stdin: item.stdin.clone().into_bytes(),
            files: files.map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect(),
            timeout: item.timeout_ms.map(Duration::from_millis),
            ..CodeCall::default()
        });
        let ran = self.engine.run_blocking(LOCAL, "batch", &call, self.cancel);
        with_id(&item.id, &ran.outcome, ran.files.filter(|_| item.collect).as_ref())
    }

    fn command(&self, item: &Item, command: &Value) -> Value {
        let argv: Option<Vec<OsString>> = match command {
            Value::String(line) => Some(vec!["sh".into(), "-c".into(), line.into()]),
            Value::Array(words) => words.iter().map(|word| word.as_str().map(Into::into)).collect(),
            _ => None,
        };
        let Some(argv) = argv.filter(|argv| !argv.is_empty()) else {
            return problem(&item.id, "`command` is a text for the shell or a list of words");
        };
        if !item.files.is_empty() || item.collect {
            return problem(
                &item.id,
                "`files` and `collect` are for `code`; a command has the working directory",
            );
        }
        if let Some(problem) = &self.no_commands {
            let outcome = Outcome::not_started(some_id(), problem.kind.into(), problem);
            return with_id(&item.id, &outcome, None);
        }
        let call = Call::Command(CommandCall {
            argv,
            stdin: item.stdin.clone().into_bytes(),
            timeout: item.timeout_ms.map(Duration::from_millis),
            ..CommandCall::default()
        });
        let ran = self.engine.run_blocking(LOCAL, "batch", &call, self.cancel);
        with_id(&item.id, &ran.outcome, None)
    }
}

fn with_id(id: &Value, outcome: &Outcome, files: Option<&Artifacts>) -> Value {
    let mut value = serde_json::to_value(outcome).unwrap_or_else(|_| json!({}));
    if let (Some(files), Some(list)) = (files, value["artifacts"].as_array_mut()) {
        let mut room = COLLECT_BYTES_MAX;
        for artifact in list {
            let path = artifact["path"].as_str().unwrap_or_default().to_owned();
            let fits = artifact["bytes"].as_u64().is_some_and(|bytes| bytes <= room);
            let content = files.read(Path::new(&path), room).ok().filter(|_| fits);
            // A file that is not text, or too large, is listed without its content.
            if let Some(text) = content.and_then(|content| String::from_utf8(content).ok()) {
                room -= text.len() as u64;
                artifact["text"] = text.into();
            } else {
                artifact["text"] = Value::Null;
            }
        }
    }
    value["id"] = id.clone();
    value
}

/// Answers a line that is not an item.
fn refused(line: &[u8], number: u64, why: &str) -> Value {
    let id = serde_json::from_slice::<Value>(line).ok().and_then(|v| v.get("id").cloned());
    problem(&id.unwrap_or(Value::Null), &format!("invalid item on line {number}: {why}"))
}

fn problem(id: &Value, why: &str) -> Value {
    let problem = Problem::usage(Code::BadItem, why);
    with_id(id, &Outcome::not_started(some_id(), Status::Error, &problem), None)
}

/// Reads the ids that have an outcome in an earlier output. Items with status `failed` run again.
fn done_before(lines: Box<dyn std::io::BufRead + Send>) -> HashSet<String> {
    let mut done = HashSet::new();
    for line in lines.lines().map_while(Result::ok) {
        // The last line may be incomplete.
        let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some(id) = value.get("id").filter(|_| value["status"] != "failed") {
            done.insert(id.to_string());
        }
    }
    done
}

/// Opens a file that the caller named as `given`.
fn open(file: &Path, given: &Path) -> Result<Box<dyn std::io::BufRead + Send>, Problem> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = open_resolved(file).map_err(|e| {
        Problem::usage(Code::Unreadable, format!("cannot read `{}`", given.display())).cause(e)
    })?;
    Ok(Box::new(BufReader::new(file)))
}

/// Maximum size of an input whose lines are counted for the progress bar.
const COUNTED_BYTES_MAX: u64 = 1 << 30;

/// Number of items of a plain file: its lines that are not empty.
fn n_lines(file: &Path) -> Option<u64> {
    let file = open_resolved(file).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > COUNTED_BYTES_MAX {
        return None;
    }
    let mut lines = BufReader::new(file);
    let (mut n, mut blank) = (0, true);
    loop {
        let buffer = lines.fill_buf().ok()?;
        if buffer.is_empty() {
            return Some(n + u64::from(!blank));
        }
        for byte in buffer {
            match byte {
                b'\n' => {
                    n += u64::from(!blank);
                    blank = true;
                }
                byte => blank &= byte.is_ascii_whitespace(),
            }
        }
        let read = buffer.len();
        lines.consume(read);
    }
}
