//! `ringfence repl`: interactive Python behind the fence. A cell that fails is undone; the session continues.

use std::cell::RefCell;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::rc::Rc;

use ringfence_engine::{LOCAL, Launcher, Repl, fresh_id};
use ringfence_spec::{Code, Denial, Outcome, Problem, Status, escape_name};
use ringfence_sys::{CallError, SignalFd, Signals};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Helper, Highlighter, Hinter};

use crate::cli::ReplArgs;
use crate::commands::local::{self, Alerts};
use crate::commands::notify;
use crate::present;
use crate::settings::{Surroundings, effective_code, search};
use crate::style;

const HELP: &str = "\
  :help              this
  :checkpoints       cells you can go back to
  :rollback N        go back to the state after cell N
  :branch            go on in a copy; :switch changes between the copies
  :files             files of the session
  :quit              leave (also exit(), quit() and Ctrl-D)
";

/// Runs a session until its end.
pub(crate) fn repl(args: &ReplArgs) -> ExitCode {
    match attempt(args) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &ReplArgs) -> Result<u8, Problem> {
    let around = Surroundings::real(false)?;
    let mut effective = effective_code(&args.policy, &around)?;
    if args.policy.code_processes.is_some() {
        let message = "`--code-processes` is for single programs: the cells of a session have none";
        return Err(Problem::usage(Code::BadValue, message)
            .hint("run the program with `ringfence exec`, or the command with `ringfence run`"));
    }
    if !args.json {
        // Once, and not with every cell.
        effective.remarks.notes.drain(..).for_each(|note| present::note(&note));
    }
    local::make_ready(&mut effective.place)?;
    let state = effective.place.state.clone();
    let alerts = Alerts::default();
    let mut engine = local::for_code(effective, &args.policy, &around, &alerts)?;
    if args.session.is_some() {
        engine = search(&args.policy, &around)?.apply(engine, &around)?;
    }
    // Before any thread: any thread may receive a signal, and the launcher is a fork of this process.
    let interrupt = Interrupt::new()?;
    let engine = engine.launcher(Launcher::start()?).build()?;
    let repl = engine.repl(LOCAL, args.session.as_ref())?;
    let session =
        Session { branches: vec![repl], current: 0, json: args.json, interrupt, alerts, args };
    if std::io::stdin().is_terminal() && !args.json {
        run_loop(&Rc::new(RefCell::new(session)), &state)
    } else {
        session.read_cells()
    }
}

struct Session<'a> {
    branches: Vec<Repl>,
    current: usize,
    json: bool,
    interrupt: Interrupt,
    alerts: Alerts,
    args: &'a ReplArgs,
}

/// Interactive: editing, completion, history, several lines.
fn run_loop(session: &Rc<RefCell<Session<'_>>>, state: &std::path::Path) -> Result<u8, Problem> {
    let broken =
        |e: ReadlineError| Problem::internal(Code::Terminal, "cannot read the terminal").cause(e);
    let config = rustyline::Config::builder()
        .completion_type(rustyline::CompletionType::List)
        .auto_add_history(true)
        .build();
    let mut editor = rustyline::Editor::<Editing<'_>, _>::with_config(config).map_err(broken)?;
    editor.set_helper(Some(Editing { session: Rc::clone(session) }));
    let history = state.join("repl-history");
    let _ = editor.load_history(&history);
    if !style::is_quiet() {
        present::print_line("Python behind the fence; :help for commands, exit() to leave");
    }
    let mut code = 0;
    loop {
        let prompt = session.borrow().prompt();
        match editor.readline(&prompt) {
            Ok(line) => {
                if let Next::Quit(asked) = session.borrow_mut().line(&line)? {
                    code = asked;
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => present::print_line("^C"),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(error)),
        }
    }
    let _ = std::fs::create_dir_all(state);
    let _ = editor.save_history(&history);
    Ok(code)
}

/// Continue, or quit with an exit code.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Go,
    Quit(u8),
}

impl Next {
    /// Reads `exit`, `quit`, `exit()` and `exit(3)`, as Python's own prompt does.
    fn of_line(line: &str) -> Self {
        let Some(rest) = ["exit", "quit"].iter().find_map(|word| line.strip_prefix(word)) else {
            return Self::Go;
        };
        let inside = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        match (rest.trim(), inside.map(str::trim)) {
            ("", _) | (_, Some("" | "None")) => Self::Quit(0),
            // The low eight bits, as exit(3) has it.
            (_, Some(code)) => code
                .parse::<i64>()
                .map_or(Self::Go, |code| Self::Quit(u8::try_from(code & 0xff).unwrap_or(u8::MAX))),
            _ => Self::Go,
        }
    }
}

impl Session<'_> {
    fn prompt(&self) -> String {
        match self.branches.len() {
            1 => ">>> ".to_owned(),
            _ => format!("[{}] >>> ", self.current + 1),
        }
    }

    fn completions(&mut self, text: &str) -> Vec<String> {
        self.branches[self.current].completions(text)
    }

    /// Reads cells from a pipe, separated by empty lines; with `--json` each line is one cell as a JSON string.
    fn read_cells(mut self) -> Result<u8, Problem> {
        let mut cell = String::new();
        for line in std::io::stdin().lock().lines() {
            if present::is_closed() {
                return Ok(0);
            }
            let line =
                line.map_err(|e| Problem::internal(Code::Stdin, "cannot read the cells").cause(e))?;
            if self.json {
                // One outcome per line, whatever it contains.
                match serde_json::from_str::<String>(&line) {
                    Ok(cell) => self.cell(&cell)?,
                    Err(error) => {
                        let problem =
                            Problem::usage(Code::BadCell, "a cell is one JSON string on a line")
                                .cause(error);
                        let outcome = Outcome::not_started(fresh_id()?, Status::Error, &problem);
                        self.show(&outcome);
                    }
                }
            } else if line.is_empty() {
                if let Next::Quit(code) = self.line(&std::mem::take(&mut cell))? {
                    return Ok(code);
                }
            } else {
                cell.push_str(&line);
                cell.push('\n');
            }
        }
        if self.json {
            return Ok(0);
        }
        match self.line(&cell)? {
            Next::Quit(code) => Ok(code),
            Next::Go => Ok(0),
        }
    }

    fn line(&mut self, line: &str) -> Result<Next, Problem> {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return Ok(Next::Go);
        }
        if let Some(command) = trimmed.strip_prefix(':') {
            return Ok(self.command(command));
        }
        if let quit @ Next::Quit(_) = Next::of_line(trimmed) {
            return Ok(quit);
        }
        self.cell(line)?;
        Ok(Next::Go)
    }

    fn command(&mut self, command: &str) -> Next {
        let mut words = command.split_whitespace();
        let (name, argument) = (words.next().unwrap_or_default(), words.next());
        let current = &mut self.branches[self.current];
        match name {
            "help" => present::text(HELP),
            "quit" | "q" => return Next::Quit(0),
            "checkpoints" => {
                let cells: Vec<String> = current.checkpoints().iter().map(u64::to_string).collect();
                present::print_line(&cells.join(" "));
            }
            "rollback" => match argument.and_then(|n| n.parse().ok()) {
                Some(cell) => match current.rollback(cell) {
                    Ok(()) => present::print_line(&format!(
                        "back after cell {cell}; files are as they are"
                    )),
                    Err(problem) => present::print_line(&problem.to_string()),
                },
                None => present::print_line("which one? :rollback N"),
            },
            "branch" => match current.branch() {
                Ok(branch) => {
                    self.branches.push(branch);
                    self.current = self.branches.len() - 1;
                    present::print_line(&format!("in branch {}", self.current + 1));
                }
                Err(problem) => present::print_line(&problem.to_string()),
            },
            "switch" => {
                self.current = (self.current + 1) % self.branches.len();
                present::print_line(&format!("in branch {}", self.current + 1));
            }
            "files" => match current.artifacts() {
                Ok(files) => {
                    for file in files.list().artifacts {
                        present::print_line(&format!(
                            "{:>10}  {}",
                            file.bytes,
                            file.path.escape_debug()
                        ));
                    }
                }
                Err(problem) => present::print_line(&problem.to_string()),
            },
            other => present::print_line(&format!("`:{other}` is not a command; :help lists them")),
        }
        Next::Go
    }

    fn cell(&mut self, code: &str) -> Result<(), Problem> {
        self.interrupt.forget()?;
        let cancel = self.interrupt.signals.as_fd();
        let outcome = self.branches[self.current].cell(code, cancel);
        self.show(&outcome);
        notify::later(&self.alerts.take(), &self.args.policy);
        Ok(())
    }

    fn show(&self, outcome: &Outcome) {
        if self.json {
            present::json(outcome);
            return;
        }
        present::text(&outcome.stdout);
        if let Some(value) = &outcome.value {
            present::print_line(value);
        }
        present::flush();
        let _ = std::io::stderr().lock().write_all(outcome.stderr.as_bytes());
        if !present::screening(outcome) {
            show_denials(outcome);
        }
        present::details(outcome);
    }
}

/// Prints what was refused to a cell, and why it ended.
fn show_denials(outcome: &Outcome) {
    // A limit that ended the cell is its error.
    let is_error = |denial: &&Denial| {
        outcome.error.as_ref().is_some_and(|error| error.message == denial.subject)
    };
    let denials = outcome.denials.iter().filter(|denial| !is_error(denial));
    for Denial { rule, subject, hint, .. } in denials.take(present::lines_max()) {
        present::warn(&match subject.as_str() {
            "" => format!("{rule}: {hint}"),
            subject => format!("{rule} `{}`: {hint}", escape_name(subject)),
        });
    }
    if let Some(error) = &outcome.error {
        present::warn(&error.message);
        if let Some(hint) = &error.hint {
            present::note(&format!("  hint: {hint}"));
        }
    }
    for note in &outcome.notes {
        present::note(note);
    }
}

/// Ctrl-C cancels the cell: the signal becomes readable on a descriptor and does not end this process.
struct Interrupt {
    signals: SignalFd,
}

impl Interrupt {
    fn new() -> Result<Self, Problem> {
        let signals = Signals::of(&[rustix::process::Signal::INT.as_raw()]);
        signals.block().map_err(cannot_listen)?;
        SignalFd::new(signals).map(|signals| Self { signals }).map_err(cannot_listen)
    }

    /// Discards signals that arrived while no cell was running.
    fn forget(&self) -> Result<(), Problem> {
        while self.signals.next().map_err(cannot_listen)?.is_some() {}
        Ok(())
    }
}

fn cannot_listen(error: CallError) -> Problem {
    Problem::internal(Code::Signals, "cannot listen to Ctrl-C").cause(error)
}

/// Completes through the session; asks for more lines where Python would: open bracket, final colon, indented block.
#[derive(Helper, Highlighter, Hinter)]
struct Editing<'a> {
    session: Rc<RefCell<Session<'a>>>,
}

impl Completer for Editing<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        let start = before
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
            .map_or(0, |i| i + before[i..].chars().next().map_or(1, char::len_utf8));
        let text = &before[start..];
        if text.is_empty() {
            return Ok((at, vec!["    ".to_owned()]));
        }
        Ok((start, self.session.borrow_mut().completions(text)))
    }
}

impl Validator for Editing<'_> {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        Ok(if is_complete(text) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

fn is_complete(text: &str) -> bool {
    let (mut open, mut quote) = (0_i32, None::<char>);
    for line in text.lines() {
        let mut escaped = false;
        for c in line.chars() {
            match (quote, c) {
                _ if escaped => escaped = false,
                (Some(_), '\\') => escaped = true,
                (Some(q), c) if q == c => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, '#') => break,
                (None, '(' | '[' | '{') => open += 1,
                (None, ')' | ']' | '}') => open -= 1,
                _ => {}
            }
        }
        quote = None;
    }
    if open > 0 || text.ends_with('\\') || text.matches("\"\"\"").count() % 2 == 1 {
        return false;
    }
    let block = text.lines().any(|line| line.trim_end().ends_with(':'));
    !block || text.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use super::{Next, is_complete};

    #[test]
    fn exit_and_quit_leave_as_in_python() {
        for (line, next) in [
            ("exit", Next::Quit(0)),
            ("exit()", Next::Quit(0)),
            ("quit( )", Next::Quit(0)),
            ("quit(None)", Next::Quit(0)),
            ("exit(3)", Next::Quit(3)),
            ("exit(-1)", Next::Quit(255)),
            ("exit = 1", Next::Go),
            ("exits", Next::Go),
            ("exit(f())", Next::Go),
            ("quit.__doc__", Next::Go),
        ] {
            assert_eq!(Next::of_line(line), next, "{line}");
        }
    }

    #[test]
    fn a_block_ends_with_an_empty_line_and_a_bracket_with_its_partner() {
        for (text, complete) in [
            ("1 + 1", true),
            ("f(1,", false),
            ("f(1,\n2)", true),
            ("for x in y:", false),
            ("for x in y:\n    print(x)", false),
            ("for x in y:\n    print(x)\n", true),
            ("s = ')('", true),
            ("x = 1 # (", true),
            ("\"\"\"open", false),
        ] {
            assert_eq!(is_complete(text), complete, "{text:?}");
        }
    }
}
