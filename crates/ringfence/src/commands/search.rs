//! `ringfence search`, `index` and `chunk`: finds pieces of a session's files as an agent's search does.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence_engine::LOCAL;
use ringfence_engine::search::{
    ChunkRange, ChunkSize, FileChunk, IndexReport, OnIndexed, SearchQuery, SearchResult,
};
use ringfence_spec::{Problem, escape_name};

use crate::cli::{ChunkArgs, IndexArgs, SearchArgs};
use crate::commands::session_files::FileEngine;
use crate::present;
use crate::progress::Bar;

/// Exit code for no hit, as in grep(1).
const NOTHING: u8 = 1;

/// Searches and prints the hits, the best first.
pub(crate) fn search(args: &SearchArgs) -> ExitCode {
    match find(args) {
        Ok(found) => {
            if args.output.json {
                present::json(&found);
            } else {
                present::text(&ringfence_engine::shown(&lines(&found, !args.no_text)));
                if !found.complete {
                    present::note("not every file is indexed yet; `ringfence index` does the rest");
                }
                if let Some(note) = &found.ranking_note {
                    present::note(note);
                }
            }
            ExitCode::from(if found.hits.is_empty() { NOTHING } else { 0 })
        }
        Err(problem) => present::problem(&problem),
    }
}

fn find(args: &SearchArgs) -> Result<SearchResult, Problem> {
    let files = FileEngine::start(args.state.data_dir.as_ref())?;
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
        let place = place(&hit.path, (hit.start_line, hit.end_line), hit.symbol.as_deref());
        let _ = writeln!(text, "{place}");
        if with_text {
            for line in hit.text.lines() {
                let _ = writeln!(text, "    {line}");
            }
            text.push('\n');
        }
    }
    text
}

/// The place of a piece: path, lines, and the definition it is in.
fn place<N: std::fmt::Display>(path: &str, (start, end): (N, N), symbol: Option<&str>) -> String {
    let symbol = symbol.map(|symbol| format!("  {symbol}")).unwrap_or_default();
    format!("{}:{start}-{end}{symbol}", escape_name(path))
}

/// Brings the index of a session up to date.
pub(crate) fn index(args: &IndexArgs) -> ExitCode {
    let bar = Arc::new(Bar::new("files", None));
    let shown = Arc::clone(&bar);
    let progress: OnIndexed = Arc::new(move |done, total| {
        if total > 0 {
            shown.set_total(total);
        }
        shown.set(done);
    });
    let done = FileEngine::start(args.state.data_dir.as_ref()).and_then(|files| {
        files.wait(files.engine.index_with(LOCAL, &args.session, args.path.clone(), progress))
    });
    bar.finish();
    match done {
        Ok(report) => {
            if args.output.json {
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
    if let Some(n) = report.n_vectors {
        let _ = writeln!(text, "{n} pieces have a vector");
    }
    if let Some(note) = &report.vectors_note {
        let _ = writeln!(text, "{note}");
    }
    for file in &report.skipped_files {
        let _ = writeln!(text, "left out: {}: {}", escape_name(&file.path), file.reason);
    }
    text
}

/// Prints a file of a session cut into pieces.
pub(crate) fn chunk(args: &ChunkArgs) -> ExitCode {
    match cut(args) {
        Ok(chunks) => {
            if args.output.json {
                present::json(&chunks);
            } else {
                present::text(&ringfence_engine::shown(&pieces(&chunks, args.prompt)));
            }
            ExitCode::SUCCESS
        }
        Err(problem) => present::problem(&problem),
    }
}

/// Cuts the whole file, page by page.
fn cut(args: &ChunkArgs) -> Result<Vec<FileChunk>, Problem> {
    let size = ChunkSize { lines: args.lines, overlap_percent: args.overlap, prompt: args.prompt };
    let files = FileEngine::start(args.state.data_dir.as_ref())?;
    let (mut chunks, mut next) = (Vec::new(), Some(0));
    while let Some(offset) = next {
        let range = ChunkRange { offset, ..ChunkRange::default() };
        let path = args.path.clone();
        let page = files.wait(files.engine.chunk(LOCAL, &args.session, path, size, range))?;
        chunks.extend(page.chunks);
        next = page.next;
    }
    Ok(chunks)
}

fn pieces(chunks: &[FileChunk], prompt: bool) -> String {
    let mut text = String::new();
    for chunk in chunks {
        if !prompt {
            let lines = (chunk.start_line, chunk.end_line);
            let _ = writeln!(text, "── {}", place(&chunk.path, lines, chunk.symbol.as_deref()));
        }
        text.push_str(&chunk.text);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
