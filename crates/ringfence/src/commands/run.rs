//! `ringfence run`: a command behind the fence.

use std::process::ExitCode;

use ringfence_screen::scrub::Scrub;
use ringfence_spec::{Outcome, Problem, RunId};
use rustix::process::Signal;

use crate::cli::RunArgs;
use crate::present;
use crate::settings::{Surroundings, Switch, effective, ledger, ready};
use ringfence_audit::{Entry, Settings};
use ringfence_engine::{self as engine, Book, Fence, HeadStart, Io, LOCAL, Place, Recorder};
use ringfence_jail::Permit;

/// Runs the command; the exit code is the program's own unless the fence ended it.
pub(crate) fn run(args: RunArgs, head_start: HeadStart) -> ExitCode {
    let json = args.json;
    if args.die_with_parent {
        // Politely, so that the run is ended and tidied up after.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    }
    let terminal = !json && rustix::termios::isatty(rustix::stdio::stdout());
    let io = if json { Io::Capture } else { Io::Passthrough { terminal } };
    match attempt(args, io, head_start) {
        Ok(outcome) => {
            if json {
                present::json(&outcome);
            } else {
                present::talk(&outcome);
            }
            ExitCode::from(present::exit_code(&outcome))
        }
        Err((run_id, problem)) if json => {
            present::json(&Outcome::not_started(run_id, problem.kind.into(), &problem));
            ExitCode::from(problem.kind.exit_code())
        }
        Err((_, problem)) => present::problem(&problem),
    }
}

fn attempt(args: RunArgs, io: Io, head_start: HeadStart) -> Result<Outcome, (RunId, Problem)> {
    let unnamed = |problem| (engine::some_id(), problem);
    let terminal = io == Io::Passthrough { terminal: true };
    let around = Surroundings::real(terminal).map_err(unnamed)?;
    let mut effective = effective(&args.policy, &around).map_err(unnamed)?;
    effective.place.state = ready(&effective.place.state, &effective.place.cwd).map_err(unnamed)?;
    if args.policy.cwd.is_some() {
        let cwd = effective.place.without_planted_links(&effective.place.cwd, "--cwd");
        effective.place.cwd = cwd.map_err(unnamed)?;
    }
    let ledger = ledger(&effective.place, effective.audit);
    let summary = summary(&args.argv);
    let fence = Fence::new(&effective.policy, &effective.place, args.argv, io).map_err(unnamed)?;
    let run_id = fence.run_id();
    let book =
        Book::new(ledger, Entry::run_start(run_id).client(LOCAL).tool("run").arguments(summary));
    let mut outcome = match fence.run(head_start, Permit(&|| book.begin())) {
        // Commands see the host's own paths, so there is none to hide.
        Ok((plan, finished)) => {
            if io != Io::Capture {
                present::gaps(&finished.gaps);
            }
            engine::outcome(run_id, &plan, finished, &Scrub::default())
        }
        Err(problem) => {
            book.abandon(run_id, &problem);
            return Err((run_id, problem));
        }
    };
    book.end(&mut outcome);
    Ok(outcome)
}

/// The ledger of a data directory, or none if there is to be none.
pub(crate) fn recorder(place: &Place, audit: Switch) -> Result<Recorder, Problem> {
    match ledger(place, audit) {
        Some(dir) => Recorder::open(&dir, Settings::new(engine::redact)),
        None => Ok(Recorder::off()),
    }
}

/// A command in one line, for the ledger.
pub(crate) fn summary(argv: &[std::ffi::OsString]) -> String {
    let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
