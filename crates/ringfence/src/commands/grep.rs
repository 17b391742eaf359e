//! `ringfence grep`: searches a session's files as an agent's search does, and prints matches as grep does.

use std::process::ExitCode;

use ringfence_engine::LOCAL;
use ringfence_engine::files::{GrepBounds, GrepQuery, Grepped, PatternStyle};
use ringfence_spec::Problem;

use crate::cli::GrepArgs;
use crate::commands::session_files::FileEngine;
use crate::present;

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
    let files = FileEngine::start(args.data_dir.as_ref())?;
    let query = GrepQuery {
        pattern: args.pattern.clone(),
        style: PatternStyle { literal: args.literal, ignore_case: args.ignore_case },
        glob: args.glob.clone(),
        bounds: GrepBounds::asked(args.max_count, args.context),
    };
    files.wait(files.engine.file_grep(LOCAL, &args.session, args.path.clone(), query))
}
