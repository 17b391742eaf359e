//! `ringfence repl`: interactive Python behind the fence. A cell that goes wrong is undone; the session goes on.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use ringfence_python::{Job, Repl};
use ringfence_spec::{Outcome, Problem};
use rustyline::error::ReadlineError;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Completer, Helper, Highlighter, Hinter};

use crate::cli::ReplArgs;
use crate::code::{self, CodeFence, Use};
use crate::fence;
use crate::present;
use crate::settings::{Surroundings, effective_code};

const HELP: &str = "\
  :help              this
  :checkpoints       cells you can go back to
  :rollback N        go back to the state after cell N
  :branch            go on in a copy; :switch changes between the copies
  :files             files of the session
  :quit              leave (also Ctrl-D)
";

/// Runs a session until its end.
pub(crate) fn repl(args: &ReplArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &ReplArgs) -> Result<(), Problem> {
    let around = Surroundings::real(false)?;
    let effective = effective_code(&args.policy, &around)?;
    let fence = CodeFence::new(&effective, &around, Use::Session)?;
    // Before any thread: the session's keeper is a fork of this process.
    let repl = fence.repl()?;
    let mut session = Session { fence, branches: vec![repl], current: 0, json: args.json };
    if std::io::stdin().is_terminal() && !args.json {
        session.converse(&effective.state)
    } else {
        session.read_cells()
    }
}

struct Session {
    fence: CodeFence,
    branches: Vec<Repl>,
    current: usize,
    json: bool,
}

/// Whether the session goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    Quit,
}

impl Session {
    /// With a person: editing, history, several lines.
    fn converse(&mut self, state: &std::path::Path) -> Result<(), Problem> {
        let broken =
            |e: ReadlineError| Problem::internal("terminal", "cannot read the terminal").cause(e);
        let mut editor = rustyline::Editor::<Editing, _>::new().map_err(broken)?;
        editor.set_helper(Some(Editing));
        let history = state.join("repl-history");
        let _ = editor.load_history(&history);
        println!("Python behind the fence; :help for commands");
        loop {
            let prompt = match self.branches.len() {
                1 => ">>> ".to_owned(),
                _ => format!("[{}] >>> ", self.current + 1),
            };
            match editor.readline(&prompt) {
                Ok(line) => {
                    let _ = editor.add_history_entry(&line);
                    if self.line(&line)? == Next::Quit {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => println!("^C"),
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(broken(error)),
            }
        }
        let _ = std::fs::create_dir_all(state);
        let _ = editor.save_history(&history);
        Ok(())
    }

    /// From a pipe: cells are separated by empty lines; with `--json` each line is one cell as a JSON string.
    fn read_cells(&mut self) -> Result<(), Problem> {
        let mut cell = String::new();
        for line in std::io::stdin().lock().lines() {
            let line =
                line.map_err(|e| Problem::internal("stdin", "cannot read the cells").cause(e))?;
            if self.json {
                let cell = serde_json::from_str::<String>(&line).unwrap_or(line);
                if self.line(&cell)? == Next::Quit {
                    return Ok(());
                }
            } else if line.is_empty() {
                if self.line(&std::mem::take(&mut cell))? == Next::Quit {
                    return Ok(());
                }
            } else {
                cell.push_str(&line);
                cell.push('\n');
            }
        }
        self.line(&cell).map(|_| ())
    }

    fn line(&mut self, line: &str) -> Result<Next, Problem> {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return Ok(Next::Go);
        }
        if let Some(command) = trimmed.strip_prefix(':') {
            return Ok(self.command(command));
        }
        self.cell(line)?;
        Ok(Next::Go)
    }

    fn command(&mut self, command: &str) -> Next {
        let mut words = command.split_whitespace();
        let (name, argument) = (words.next().unwrap_or_default(), words.next());
        let current = &mut self.branches[self.current];
        match name {
            "help" => print!("{HELP}"),
            "quit" | "q" => return Next::Quit,
            "checkpoints" => {
                let cells: Vec<String> = current.checkpoints().iter().map(u64::to_string).collect();
                println!("{}", cells.join(" "));
            }
            "rollback" => match argument.and_then(|n| n.parse().ok()) {
                Some(cell) => match current.rollback(cell) {
                    Ok(()) => println!("back after cell {cell}; files are as they are"),
                    Err(problem) => println!("{problem}"),
                },
                None => println!("which one? :rollback N"),
            },
            "branch" => match current.branch() {
                Ok(branch) => {
                    self.branches.push(branch);
                    self.current = self.branches.len() - 1;
                    println!("in branch {}", self.current + 1);
                }
                Err(problem) => println!("{problem}"),
            },
            "switch" => {
                self.current = (self.current + 1) % self.branches.len();
                println!("in branch {}", self.current + 1);
            }
            "files" => match current.artifacts() {
                Ok(files) => {
                    for file in files.list() {
                        println!("{:>10}  {}", file.bytes, file.path);
                    }
                }
                Err(problem) => println!("{problem}"),
            },
            other => println!("`:{other}` is not a command; :help lists them"),
        }
        Next::Go
    }

    fn cell(&mut self, code: &str) -> Result<(), Problem> {
        let verdict = self.fence.screen(code.as_bytes());
        if !verdict.safe {
            let outcome = code::blocked(fence::fresh_id()?, &self.fence.plan().worker, &verdict);
            self.show(&outcome);
            return Ok(());
        }
        let job = Job { value: true, ..self.fence.job(code.as_bytes().to_vec()) };
        let timeout = job.timeout.unwrap_or_default();
        // Ctrl-C is for the cell: it becomes something to read, and does not end us.
        let interrupt = Interrupt::new()?;
        let cell = self.branches[self.current].cell(&job, Some(interrupt.signals.as_fd()))?;
        drop(interrupt);
        let outcome = self.fence.cell_outcome(cell, timeout);
        self.show(&outcome);
        Ok(())
    }

    fn show(&self, outcome: &Outcome) {
        if self.json {
            present::json(outcome);
            return;
        }
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(outcome.stdout.as_bytes());
        if let Some(value) = &outcome.value {
            let _ = writeln!(out, "{value}");
        }
        let _ = out.flush();
        let _ = std::io::stderr().lock().write_all(outcome.stderr.as_bytes());
        for denial in outcome.denials.iter().take(5) {
            eprintln!("ringfence: {} `{}`: {}", denial.rule, denial.subject, denial.hint);
        }
        if let Some(error) = &outcome.error {
            eprintln!("ringfence: {}", error.message);
            if let Some(hint) = &error.hint {
                eprintln!("ringfence:   {hint}");
            }
        }
    }
}

/// SIGINT as a descriptor while a cell runs.
struct Interrupt {
    signals: ringfence_jail::SignalFd,
    before: Option<ringfence_jail::Signals>,
}

impl Interrupt {
    fn new() -> Result<Self, Problem> {
        let cannot =
            |e: ringfence_jail::CallError| Problem::internal("signals", "cannot listen").cause(e);
        let signals = ringfence_jail::Signals::of(&[rustix::process::Signal::INT.as_raw()]);
        let before = signals.block().map_err(cannot)?;
        let signals = ringfence_jail::SignalFd::new(signals).map_err(cannot)?;
        Ok(Self { signals, before: Some(before) })
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        // What arrived meanwhile was for the cell.
        while let Ok(Some(_)) = self.signals.next() {}
        if let Some(before) = self.before.take() {
            let _ = before.set_blocked();
        }
    }
}

/// Asks for more lines where Python would: an open bracket, a colon at the end, an indented block.
#[derive(Completer, Helper, Highlighter, Hinter)]
struct Editing;

impl Validator for Editing {
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
    use super::is_complete;

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
