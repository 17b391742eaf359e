//! `ringfence grep`: searches a session's files as an agent's search does, and prints matches as grep does.

use std::process::ExitCode;

use ringfence_engine::files::{GrepBounds, GrepQuery, Grepped, PatternStyle};
use ringfence_engine::{LOCAL, Launcher};
use ringfence_spec::{Code, Problem};

use crate::cli::{GrepArgs, PolicyFlags};
use crate::commands::mcp;
use crate::present;
use crate::settings::Surroundings;

/// Exit code for no match, as in grep(1).
const NOTHING: u8 = 1;

/// Searches and prints the matches.
pub(crate) fn grep(args: &GrepArgs) -> ExitCode {
    match attempt(args) {
        Ok(found) => {
            if args.json {
                present::json(&found);
            } else {
                present::text(&ringfence_engine::shown(&found.to_string()));
                if found.cut.is_some() {
                    present::say(
                        "not everything was searched; narrow the path, or ask for more with `-m`",
                    );
                }
            }
            ExitCode::from(if found.matches.is_empty() { NOTHING } else { 0 })
        }
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &GrepArgs) -> Result<Grepped, Problem> {
    // First: the launcher is a fork of this process, which must not have threads yet.
    let launcher = Launcher::start()?;
    let flags = PolicyFlags { data_dir: args.data_dir.clone(), ..PolicyFlags::default() };
    let (code, command) = mcp::policies(&flags, &Surroundings::real(false)?)?;
    let engine = mcp::builder(launcher, code, command)?.build()?;
    let query = GrepQuery {
        pattern: args.pattern.clone(),
        style: PatternStyle { literal: args.literal, ignore_case: args.ignore_case },
        glob: args.glob.clone(),
        bounds: GrepBounds::asked(args.max_count, args.context),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::internal(Code::Runtime, "cannot start").cause(e))?;
    runtime.block_on(engine.file_grep(LOCAL, &args.session, args.path.clone(), query))
}
