//! `ringfence search`, `index` and `chunk`: finds pieces of a session's files as an agent's search does.

use std::fmt::Write as _;
use std::process::ExitCode;

use ringfence_engine::LOCAL;
use ringfence_engine::search::{ChunkSize, FileChunk, IndexReport, SearchQuery, SearchResult};
use ringfence_spec::{Problem, escape_name};

use crate::cli::{ChunkArgs, IndexArgs, SearchArgs};
use crate::commands::session_files::FileEngine;
use crate::present;

/// Exit code for no hit, as in grep(1).
const NOTHING: u8 = 1;

/// Searches and prints the hits, the best first.
pub(crate) fn search(args: &SearchArgs) -> ExitCode {
    match find(args) {
        Ok(found) => {
            if args.json {
                present::json(&found);
            } else {
                present::text(&ringfence_engine::shown(&lines(&found, !args.no_text)));
                if !found.complete {
                    present::say("not every file is indexed yet; `ringfence index` does the rest");
                }
            }
            ExitCode::from(if found.hits.is_empty() { NOTHING } else { 0 })
        }
        Err(problem) => present::problem(&problem),
    }
}

fn find(args: &SearchArgs) -> Result<SearchResult, Problem> {
    let files = FileEngine::start(args.data_dir.as_ref())?;
    let query = SearchQuery {
        query: args.query.join(" "),
        limit: args.limit,
        glob: args.glob.clone(),
        language: args.language.clone(),
    };
    files.wait(files.engine.search(LOCAL, &args.session, query))
}

fn lines(found: &SearchResult, with_text: bool) -> String {
    let mut text = String::new();
    for hit in &found.hits {
        let symbol = hit.symbol.as_deref().map(|s| format!("  {s}")).unwrap_or_default();
        let path = escape_name(&hit.path);
        let _ = writeln!(text, "{path}:{}-{}{symbol}", hit.start_line, hit.end_line);
        if with_text {
            for line in hit.text.lines() {
                let _ = writeln!(text, "    {line}");
            }
            text.push('\n');
        }
    }
    text
}

/// Brings the index of a session up to date.
pub(crate) fn index(args: &IndexArgs) -> ExitCode {
    let done = FileEngine::start(args.data_dir.as_ref())
        .and_then(|files| files.wait(files.engine.index(LOCAL, &args.session, args.path.clone())));
    match done {
        Ok(report) => {
            if args.json {
                present::json(&report);
            } else {
                present::text(&summary(&report));
            }
            ExitCode::SUCCESS
        }
        Err(problem) => present::problem(&problem),
    }
}

fn summary(report: &IndexReport) -> String {
    let IndexReport { indexed, unchanged, removed, skipped, n_files, n_chunks, .. } = report;
    let mut text = format!(
        "{indexed} files indexed, {unchanged} unchanged, {removed} removed, {skipped} left out in {:.1} s; {n_files} files, {n_chunks} pieces\n",
        report.duration_ms / 1e3
    );
    for file in &report.skipped_files {
        let _ = writeln!(text, "left out: {}: {}", escape_name(&file.path), file.reason);
    }
    text
}

/// Prints a file of a session cut into pieces.
pub(crate) fn chunk(args: &ChunkArgs) -> ExitCode {
    let size = ChunkSize { lines: args.lines, overlap_percent: args.overlap, prompt: args.prompt };
    let cut = FileEngine::start(args.data_dir.as_ref()).and_then(|files| {
        files.wait(files.engine.chunk(LOCAL, &args.session, args.path.clone(), size))
    });
    match cut {
        Ok(chunks) => {
            if args.json {
                present::json(&chunks);
            } else {
                present::text(&ringfence_engine::shown(&pieces(&chunks, args.prompt)));
            }
            ExitCode::SUCCESS
        }
        Err(problem) => present::problem(&problem),
    }
}

fn pieces(chunks: &[FileChunk], prompt: bool) -> String {
    let mut text = String::new();
    for chunk in chunks {
        let symbol = chunk.symbol.as_deref().map(|s| format!("  {s}")).unwrap_or_default();
        let path = escape_name(&chunk.path);
        if !prompt {
            let _ = writeln!(text, "── {path}:{}-{}{symbol}", chunk.start_line, chunk.end_line);
        }
        text.push_str(&chunk.text);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
