//! One `execute_code` that searches, filters, reranks and aggregates by `code_api`, against four tool calls that come to the
//! same answer: time end to end, and how much comes back to the model. Both over MCP, on the same session, in turn.
//! The four calls are also timed as a model might make them that repeats only the beginning of each text: they are faster
//! then, and may rank otherwise.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

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

/// How the third of the four calls gets the texts that it ranks by: no model repeats 50 of them, and a result shows 16,000
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

/// What the second to fourth call do with the hits that the model has.
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
    /// Rounds of each
    #[arg(long, default_value_t = 60)]
    rounds: usize,
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
    // Three searches each, of 500 a day.
    let rounds = args.rounds.min(150);
    let (mut one, mut four, mut short) = (Vec::new(), Vec::new(), Vec::new());
    let (mut one_chars, mut four_chars) = (0, 0);
    let mut answers = (Value::Null, Value::Null, Value::Null);
    for round in 0..rounds + 3 {
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
    for times in [&mut one, &mut four, &mut short] {
        times.sort_by(f64::total_cmp);
    }
    if answers.0 != answers.1 || answers.0.is_null() {
        return Err(format!(
            "one call and four come to different answers: {} and {}",
            answers.0, answers.1
        ));
    }
    let (p50_one, p50_four) = (at(&one, 50), at(&four, 50));
    let (faster, p95) = (p50_four / p50_one, at(&one, 95));
    #[allow(clippy::cast_precision_loss, reason = "some thousand characters")]
    let [one_tokens, four_tokens] = [one_chars, four_chars].map(|n| n as f64 / CHARS_PER_TOKEN);
    let fewer = four_tokens / one_tokens;
    println!("{} files, {n_bytes} bytes in the session", files.len().min(FILES_MAX));
    println!(
        "one call:   p50 {p50_one:.1} ms, p95 {p95:.1} ms (at most {P95_MS_MAX}), {one_tokens:.0} tokens back"
    );
    println!(
        "four calls: p50 {p50_four:.1} ms, p95 {:.1} ms, {four_tokens:.0} tokens back, the same answer",
        at(&four, 95)
    );
    println!(
        "four calls that rank by {TEXT_CHARS} characters of each text: p50 {:.1} ms, p95 {:.1} ms, {} answer",
        at(&short, 50),
        at(&short, 95),
        if answers.2 == answers.0 { "the same" } else { "another" }
    );
    println!(
        "{faster:.1} times as fast (at least {FASTER_MIN}), {fewer:.0} times fewer tokens (at least {FEWER_MIN}; a token is {CHARS_PER_TOKEN} characters)"
    );
    let held = faster >= FASTER_MIN && p95 <= P95_MS_MAX && fewer >= FEWER_MIN;
    Ok(if held { Verdict::Held } else { Verdict::Failed })
}

/// The places that a result names as the best.
fn best(result: &Value) -> Value {
    let value = result["structuredContent"]["value"].as_str().unwrap_or_default();
    value.split_once("'best': ").map_or(Value::Null, |(_, best)| best.into())
}

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).or(sorted.last()).copied().unwrap_or(f64::NAN)
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

struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    n_sent: u64,
}

impl Client {
    fn start(binary: &Path, data: &Path) -> Result<Self, CannotTry> {
        let mut child = Command::new(binary)
            .args(["mcp", "--data-dir"])
            .arg(data.join("data"))
            .current_dir(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("cannot start the server: {e}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err("the server has no pipes".into());
        };
        let mut client = Self { child, stdin, stdout: BufReader::new(stdout), n_sent: 0 };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "workflow", "version": "1"}});
        client.request("initialize", &hello)?;
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    fn send(&mut self, message: &Value) -> Result<(), CannotTry> {
        writeln!(self.stdin, "{message}").map_err(|e| format!("the server does not listen: {e}"))
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, CannotTry> {
        self.n_sent += 1;
        let id = self.n_sent;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            match self.stdout.read_line(&mut line) {
                Ok(n) if n > 0 => {}
                _ => return Err("the server ended".into()),
            }
            let answer: Value = serde_json::from_str(&line).map_err(|e| e.to_string())?;
            if answer["id"] == id {
                return Ok(answer["result"].clone());
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, CannotTry> {
        let mut result =
            self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        while result["structuredContent"]["status"] == "running" {
            let wait = json!({"run_id": result["structuredContent"]["run_id"]});
            result = self.request("tools/call", &json!({"name": "wait", "arguments": wait}))?;
        }
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

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
