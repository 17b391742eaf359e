//! One `execute_code` that searches, filters, reranks and aggregates by `code_api`, against four tool calls that come to the
//! same answer: time end to end, and how much comes back to the model. Both over MCP, on the same session, in turn.
//! The four calls are also timed as a model might make them that repeats only the beginning of each text: they are faster
//! then, and may rank otherwise.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::mcp_client::McpClient;
use crate::percentiles::Percentiles;
use crate::{CannotTry, Verdict, millis, program};

/// The four calls must take at least so many times as long.
const FASTER_MIN: f64 = 3.0;

/// The one call, 95 of 100 times, at most.
const P95_MS_MAX: f64 = 50.0;

/// And return at least so many times as much.
const FEWER_MIN: f64 = 20.0;

/// Files put into the session.
const FILES_MAX: usize = 400;

/// Largest file that is put there.
const FILE_BYTES_MAX: u64 = 200 << 10;

/// Characters of a hit's text that are handed from call to call by a model that does not fetch the texts again.
const TEXT_CHARS: usize = 40;

/// Input of the third of the four calls: no model repeats 50 of them, and a result shows 16,000
/// characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Texts {
    /// It reads the files again.
    Read,
    /// It has the beginning of each.
    Beginnings,
}

/// Characters of a token of English and code, roughly.
const CHARS_PER_TOKEN: f64 = 4.0;

const QUERY: &str = "where is a deadline enforced and the process killed";

/// The whole workflow in one call.
const ONE: &str = r#"
import code_api
from collections import Counter
hits = code_api.search("where is a deadline enforced and the process killed", limit=50)
kept = code_api.filtering.without_tests(hits)
best = code_api.reranking.mmr(kept, "deadline kill", limit=10)
places = Counter(hit.path.split("/")[0] for hit in kept)
{"n": len(hits), "kept": len(kept), "where": places.most_common(3), "best": [f"{h.path}:{h.start_line}" for h in best[:5]]}
"#;

/// Work of the second to fourth call on the hits that the model has.
const FILTER: &str = r"
import code_api, json
hits = [code_api.Hit(**hit) for hit in json.loads(HITS)]
kept = code_api.filtering.without_tests(hits)
print(json.dumps([vars(hit) for hit in kept]))
";
const RERANK: &str = r#"
import code_api, json
hits = [code_api.Hit(**hit) for hit in json.loads(HITS)]
best = code_api.reranking.mmr(hits, "deadline kill", limit=10)
print(json.dumps([vars(hit) for hit in best]))
"#;
/// The same, with the texts that the search found.
const READ_AND_RERANK: &str = r#"
import code_api, dataclasses, json
hits = [code_api.Hit(**hit) for hit in json.loads(HITS)]
files = {}
def text(hit):
    if hit.path not in files:
        files[hit.path] = code_api.read(hit.path).split("\n")
    return "\n".join(files[hit.path][hit.start_line - 1:hit.end_line]) + "\n"
hits = [dataclasses.replace(hit, text=text(hit)) for hit in hits]
best = code_api.reranking.mmr(hits, "deadline kill", limit=10)
print(json.dumps([dict(vars(hit), text="") for hit in best]))
"#;
const AGGREGATE: &str = r#"
import code_api, json
from collections import Counter
hits = [code_api.Hit(**hit) for hit in json.loads(HITS)]
places = Counter(hit.path.split("/")[0] for hit in hits)
{"kept": len(hits), "where": places.most_common(3), "best": [f"{h.path}:{h.start_line}" for h in hits[:5]]}
"#;

#[derive(Debug, Args)]
pub(crate) struct WorkflowArgs {
    /// The binary to measure; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
    /// A directory of sources to search
    #[arg(long, default_value = "crates")]
    dir: PathBuf,
    /// Rounds of each, at most 150: each takes three searches of the 500 a day
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=150))]
    rounds: u32,
}

pub(crate) fn workflow(args: &WorkflowArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let data = tempfile::tempdir().map_err(|e| format!("cannot make a data directory: {e}"))?;
    let mut client = Client::start(&binary, data.path())?;
    let created = client.call("session", &json!({"action": "create"}))?;
    let session = created["structuredContent"]["session_id"].clone();
    let mut n_bytes = 0;
    let mut files = Vec::new();
    collect(&args.dir, &args.dir, &mut files);
    for (path, text) in files.iter().take(FILES_MAX) {
        n_bytes += text.len();
        client.call("write_file", &json!({"session": session, "path": path, "content": text}))?;
    }
    let (mut one, mut four, mut short) = (Vec::new(), Vec::new(), Vec::new());
    let (mut one_chars, mut four_chars) = (0, 0);
    let mut answers = (Value::Null, Value::Null, Value::Null);
    for round in 0..args.rounds + 3 {
        let began = Instant::now();
        let result = client.code(&session, ONE)?;
        let took = millis(began.elapsed());
        let began = Instant::now();
        let four_calls = client.four_calls(&session, Texts::Read)?;
        let took_four = millis(began.elapsed());
        let began = Instant::now();
        let short_calls = client.four_calls(&session, Texts::Beginnings)?;
        let took_short = millis(began.elapsed());
        // The first ones index and warm up.
        if round >= 3 {
            one.push(took);
            four.push(took_four);
            short.push(took_short);
            (one_chars, four_chars) = (result.to_string().len(), four_calls.n_chars);
        }
        answers = (best(&result), four_calls.best, short_calls.best);
    }
    if answers.0 != answers.1 || answers.0.is_null() {
        return Err(format!(
            "one call and four come to different answers: {} and {}",
            answers.0, answers.1
        ));
    }
    let [one, four, short] = [one, four, short].map(Percentiles::of);
    let faster = four.p50 / one.p50;
    #[allow(clippy::cast_precision_loss, reason = "some thousand characters")]
    let [one_tokens, four_tokens] = [one_chars, four_chars].map(|n| n as f64 / CHARS_PER_TOKEN);
    let fewer = four_tokens / one_tokens;
    println!("{} files, {n_bytes} bytes in the session", files.len().min(FILES_MAX));
    println!(
        "one call:   p50 {:.1} ms, p95 {:.1} ms (at most {P95_MS_MAX}), {one_tokens:.0} tokens back",
        one.p50, one.p95
    );
    println!(
        "four calls: p50 {:.1} ms, p95 {:.1} ms, {four_tokens:.0} tokens back, the same answer",
        four.p50, four.p95
    );
    println!(
        "four calls that rank by {TEXT_CHARS} characters of each text: p50 {:.1} ms, p95 {:.1} ms, {} answer",
        short.p50,
        short.p95,
        if answers.2 == answers.0 { "the same" } else { "another" }
    );
    println!(
        "{faster:.1} times as fast (at least {FASTER_MIN}), {fewer:.0} times fewer tokens (at least {FEWER_MIN}; a token is {CHARS_PER_TOKEN} characters)"
    );
    let held = faster >= FASTER_MIN && one.p95 <= P95_MS_MAX && fewer >= FEWER_MIN;
    Ok(if held { Verdict::Held } else { Verdict::Failed })
}

/// The places that a result names as the best.
fn best(result: &Value) -> Value {
    let value = result["structuredContent"]["value"].as_str().unwrap_or_default();
    value.split_once("'best': ").map_or(Value::Null, |(_, best)| best.into())
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let is_small = path.metadata().is_ok_and(|meta| meta.len() <= FILE_BYTES_MAX);
        if path.is_dir() {
            collect(root, &path, files);
        } else if is_small
            && let (Ok(text), Ok(name)) = (std::fs::read_to_string(&path), path.strip_prefix(root))
        {
            files.push((name.to_string_lossy().into_owned(), text));
        }
    }
}

/// A client whose calls must succeed.
struct Client {
    mcp: McpClient,
}

impl Client {
    fn start(binary: &Path, data: &Path) -> Result<Self, CannotTry> {
        let mut command = Command::new(binary);
        command.args(["mcp", "--data-dir"]).arg(data.join("data")).current_dir(data);
        Ok(Self { mcp: McpClient::start(&mut command, "workflow")? })
    }

    /// Returns the result of a call that succeeded.
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, CannotTry> {
        let result = self.mcp.call(tool, arguments)?;
        if result["structuredContent"]["status"] != "ok" {
            return Err(format!("{tool}: {}", result["content"]));
        }
        Ok(result)
    }

    fn code(&mut self, session: &Value, code: &str) -> Result<Value, CannotTry> {
        self.call("execute_code", &json!({"session": session, "code": code}))
    }

    /// Search, filter, rerank and aggregate as four calls.
    fn four_calls(&mut self, session: &Value, texts: Texts) -> Result<FourCalls, CannotTry> {
        let found =
            self.call("search", &json!({"session": session, "query": QUERY, "limit": 50}))?;
        let mut n_chars = found.to_string().len();
        let n_kept = if texts == Texts::Read { 0 } else { TEXT_CHARS };
        let short = |hit: &Value| {
            let text: String =
                hit["text"].as_str().unwrap_or_default().chars().take(n_kept).collect();
            json!({"path": hit["path"], "start_line": hit["start_line"], "end_line": hit["end_line"], "score": hit["score"], "text": text})
        };
        let all = found["structuredContent"]["hits"].as_array();
        let mut hits = all.into_iter().flatten().map(short).collect::<Value>().to_string();
        let mut last = Value::Null;
        let rerank = if texts == Texts::Read { READ_AND_RERANK } else { RERANK };
        for step in [FILTER, rerank, AGGREGATE] {
            let literal = Value::from(hits.as_str()).to_string();
            let result = self.code(session, &format!("HITS = {literal}\n{step}"))?;
            n_chars += result.to_string().len();
            let printed = result["structuredContent"]["stdout"].as_str().unwrap_or_default();
            printed.clone_into(&mut hits);
            last = best(&result);
        }
        Ok(FourCalls { n_chars, best: last })
    }
}

/// Result of four calls.
struct FourCalls {
    /// Characters that came back.
    n_chars: usize,
    best: Value,
}
