//! `ringfence grep`: searches a session's files as an agent's search does, and prints matches as grep does.

use std::ffi::OsString;
use std::process::ExitCode;

use ringfence_engine::LOCAL;
use ringfence_engine::files::{
    Case, Cut, GREP_MATCHES_MAX, GREP_MATCHES_USUAL, GrepBounds, GrepContext, GrepQuery,
    GrepReport, Grepped, PatternStyle, Select,
};
use ringfence_spec::{Code, Problem};

use crate::cli::GrepArgs;
use crate::commands::session_files::FileEngine;
use crate::present;

/// Exit code for no match, as in grep(1).
const NOTHING: u8 = 1;

/// Searches and prints the matches.
pub(crate) fn grep(args: &GrepArgs) -> ExitCode {
    match attempt(args) {
        Ok(found) => {
            if args.output.json {
                present::json(&found);
            } else {
                present::text(&ringfence_engine::shown(&found.to_string()));
                if let Some(cut) = found.cut {
                    present::note(&why_cut(cut, args));
                }
            }
            ExitCode::from(if found.is_empty() { NOTHING } else { 0 })
        }
        Err(problem) => present::problem(&problem),
    }
}

/// Tells which bound ended a search, and what is done about it.
fn why_cut(cut: Cut, args: &GrepArgs) -> String {
    let what = if args.files_with_matches || args.count { "files" } else { "matches" };
    let shown = args.max_count.unwrap_or(GREP_MATCHES_USUAL);
    match cut {
        Cut::Matches if shown >= GREP_MATCHES_MAX => format!(
            "{GREP_MATCHES_MAX} {what} are shown, the most there can be; narrow the pattern or the path"
        ),
        Cut::Matches => format!(
            "{shown} {what} are shown, and there are more: `-m N` shows up to {GREP_MATCHES_MAX}; or narrow the pattern or the path"
        ),
        Cut::Bytes => "not everything was searched: more than 1 GiB; narrow the path".to_owned(),
        Cut::Time => "not everything was searched in 10 s; narrow the path".to_owned(),
    }
}

fn attempt(args: &GrepArgs) -> Result<Grepped, Problem> {
    let (patterns, path) = operands(args)?;
    let query = GrepQuery {
        patterns,
        style: PatternStyle {
            literal: args.literal,
            case: Case::asked(args.ignore_case, args.smart_case),
            words: args.word_regexp,
            multiline: args.multiline,
            select: Select::asked(args.invert_match),
        },
        report: GrepReport::asked(args.files_with_matches, args.count),
        glob: args.glob.clone(),
        types: args.types.clone(),
        skip_hidden: args.no_hidden,
        skip_ignored: args.ignore,
        bounds: GrepBounds::asked(
            args.max_count,
            GrepContext::asked(args.context, args.before_context, args.after_context),
        ),
    };
    let files = FileEngine::start(args.state.data_dir.as_ref())?;
    files.wait(files.engine.file_grep(LOCAL, &args.session, path, query))
}

/// Returns the patterns and the path. With `-e` the first operand is the path, as in grep(1).
fn operands(args: &GrepArgs) -> Result<(Vec<String>, OsString), Problem> {
    let GrepArgs { patterns, pattern, path, .. } = args;
    let here = || OsString::from(".");
    if patterns.is_empty() {
        let pattern = pattern.clone().unwrap_or_default().into_string();
        let pattern = pattern.map_err(|_| {
            Problem::usage(Code::PatternInvalid, "cannot search with this pattern")
                .cause("it is not UTF-8")
        })?;
        return Ok((vec![pattern], path.clone().unwrap_or_else(here)));
    }
    if let Some(second) = path {
        let problem = format!("unexpected operand `{}`", second.to_string_lossy());
        return Err(Problem::usage(Code::BadArguments, problem)
            .cause("with `-e` the only operand is the path"));
    }
    Ok((patterns.clone(), pattern.clone().unwrap_or_else(here)))
}
