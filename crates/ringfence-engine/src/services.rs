//! Services that a program in a session may call by `code_api`. Each call is judged by the rules and recorded like a tool
//! call of the session's owner, within the permit of the run that makes it.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ringfence_python::{Broker, CallFailure};
use ringfence_spec::{Code, Problem};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::EngineState;
use crate::files::{
    Case, EntryKind, GrepBounds, GrepContext, GrepQuery, GrepReport, LIST_DEPTH_MAX,
    LIST_ENTRIES_MAX, PATH_BYTES_MAX, PatternStyle, Select,
};
use crate::record::StartedCall;
use crate::search::{ChunkRange, ChunkSize, SearchQuery};
use crate::sessions::{Daily, Session};

/// Calls of one run.
const CALLS_MAX: u32 = 10_000;

/// Bytes of a query, and of all patterns of one `grep`.
const QUERY_BYTES_MAX: usize = 4 << 10;

/// Bytes of the arguments of a call that passes no text: room for a path, a query and a glob with every byte escaped.
const SHORT_ARGUMENTS_BYTES_MAX: usize = 128 << 10;

/// Characters of the cause of a refusal, which may quote an argument.
const CAUSE_CHARS_MAX: usize = 200;

/// The services of one run in a session.
#[derive(Debug)]
pub(crate) struct Services {
    state: Weak<EngineState>,
    session: Arc<Session>,
    client: String,
    n_left: AtomicU32,
}

impl Services {
    pub(crate) fn new(state: Weak<EngineState>, session: Arc<Session>, client: &str) -> Self {
        Self { state, session, client: client.to_owned(), n_left: AtomicU32::new(CALLS_MAX) }
    }

    fn take_one(&self) -> Result<(), CallFailure> {
        let left =
            self.n_left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        left.map(drop).map_err(|_| CallFailure {
            code: "call_budget".to_owned(),
            message: format!("this run has made {CALLS_MAX} calls, all that it may"),
        })
    }

    fn answer(
        &self,
        service: &str,
        arguments: &[u8],
        stop: &Arc<AtomicBool>,
    ) -> Result<String, Problem> {
        let state = self
            .state
            .upgrade()
            .ok_or_else(|| Problem::internal(Code::Internal, "the engine has ended"))?;
        let session = &*self.session;
        let call = |tool: &'static str, about: &str, work: &mut Work<'_>| {
            let about = vec![about.to_owned()];
            state.tool_call(tool, &self.client, Some(&session.id), about, |begun| work(begun))
        };
        match service {
            "search" => {
                let Search { query, limit, path, language } = read_short(arguments)?;
                let glob = path.map(|PathText(path)| path);
                let asked = SearchQuery { query: query.0, limit, glob, language };
                call("search", &asked.query, &mut |_| {
                    state.sessions()?.take_daily(session, Daily::Search)?;
                    written(&session.search(&asked, state.vectors.as_ref(), stop)?)
                })
            }
            "grep" => {
                let asked: Grep = read_short(arguments)?;
                let (path, query) = asked.into_query();
                call("grep", &path, &mut |begun| {
                    let looked_for = format!("{} in {path}", query.shown());
                    begun.detail(|entry| entry.arguments(looked_for));
                    let files = session.files()?;
                    written(&files.grep_cancellable(&path, &query, Arc::clone(stop))?)
                })
            }
            "read" => {
                let Read { path: PathText(path), offset, limit } = read_short(arguments)?;
                call("read_file", &path, &mut |begun| {
                    let contents = session.files()?.read(&path, offset, limit)?;
                    begun.bytes_read += contents.bytes.len() as u64;
                    let text = String::from_utf8_lossy(&contents.bytes);
                    Ok(json!({"text": text, "more": contents.more}).to_string())
                })
            }
            "files" => {
                let Files { path: PathText(path), depth } = read_short(arguments)?;
                call("list_dir", &path, &mut |_| {
                    let depth = depth.clamp(1, LIST_DEPTH_MAX);
                    let listing = session.files()?.list(&path, depth, LIST_ENTRIES_MAX)?;
                    let files = listing.entries.iter().filter(|e| e.kind == EntryKind::File);
                    #[allow(clippy::cast_precision_loss, reason = "milliseconds since 1970")]
                    let files = files.map(|e| {
                        let modified = e.modified_ms as f64 / 1e3;
                        json!({"path": e.path, "kind": "file", "size": e.bytes, "modified": modified})
                    });
                    let files: Vec<Value> = files.collect();
                    Ok(json!({"files": files, "truncated": listing.truncated}).to_string())
                })
            }
            "chunks" => {
                let Chunks { path: PathText(path), lines, prompt, offset } = read_short(arguments)?;
                let size = ChunkSize { lines: Some(lines), prompt, ..ChunkSize::default() };
                call("chunk", &path, &mut |_| {
                    let range = ChunkRange { offset, ..ChunkRange::default() };
                    written(&session.chunks(OsString::from(&path).as_os_str(), size, range)?)
                })
            }
            "wrap" => {
                let Wrap { text, label } = read(arguments)?;
                Ok(json!({"text": ringfence_search::wrap(&text, &label).text}).to_string())
            }
            "vectors" => {
                let Some(vectors) = &state.vectors else {
                    return Err(Problem::refused(
                        Code::NoVectors,
                        "no embedding model is configured, so there are no vectors",
                    )
                    .hint("`code_api.reranking.bm25` and `mmr` need none"));
                };
                let Likeness { query: QueryText(query), texts } = read(arguments)?;
                call("search", &query, &mut |_| {
                    // As expensive as a search, and counted like one.
                    state.sessions()?.take_daily(session, Daily::Search)?;
                    Ok(json!({"scores": vectors.cosine_similarity(&query, &texts)?}).to_string())
                })
            }
            other => {
                Err(Problem::usage(Code::BadArguments, format!("there is no service `{other}`")))
            }
        }
    }
}

type Work<'a> = dyn FnMut(&mut StartedCall<'_>) -> Result<String, Problem> + 'a;

/// The text of a result, which may be large.
fn written(result: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(result)
        .map_err(|e| Problem::internal(Code::Internal, "cannot write the result").cause(e))
}

impl Broker for Services {
    fn call(
        &self,
        service: &str,
        arguments: &[u8],
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<u8>, CallFailure> {
        self.take_one()?;
        match self.answer(service, arguments, stop) {
            Ok(text) => Ok(text.into_bytes()),
            Err(problem) => {
                let code = problem.code.as_str().to_owned();
                // A program cannot act on a hint for a person.
                let message = Problem { hint: None, ..problem }.to_string();
                Err(CallFailure { code, message })
            }
        }
    }
}

fn read<T: DeserializeOwned>(arguments: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(arguments).map_err(|error| {
        let cause: String = error.to_string().chars().take(CAUSE_CHARS_MAX).collect();
        wrong(cause)
    })
}

/// Reads the arguments of a call that passes no text.
fn read_short<T: DeserializeOwned>(arguments: &[u8]) -> Result<T, Problem> {
    within("JSON", arguments.len(), SHORT_ARGUMENTS_BYTES_MAX).map_err(wrong)?;
    read(arguments)
}

fn wrong(cause: String) -> Problem {
    Problem::usage(Code::BadArguments, "the arguments of the call are wrong").cause(cause)
}

fn within(what: &str, n_bytes: usize, bytes_max: usize) -> Result<(), String> {
    if n_bytes <= bytes_max {
        return Ok(());
    }
    Err(format!("{what} of {n_bytes} bytes, of {bytes_max} at most"))
}

/// Path or glob of a call. Bounded before the call is judged: that takes memory for each character and each name of it.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct PathText(String);

impl TryFrom<String> for PathText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        within("a path", text.len(), PATH_BYTES_MAX - 1).map(|()| Self(text))
    }
}

/// Query of a call, bounded as [`PathText`] is.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct QueryText(String);

impl TryFrom<String> for QueryText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        within("a query", text.len(), QUERY_BYTES_MAX).map(|()| Self(text))
    }
}

/// Patterns of a call, bounded together.
#[derive(Debug, Deserialize)]
#[serde(try_from = "OneOrMore")]
struct PatternTexts(Vec<String>);

impl TryFrom<OneOrMore> for PatternTexts {
    type Error = String;

    fn try_from(patterns: OneOrMore) -> Result<Self, String> {
        let patterns = patterns.into_vec();
        let n_bytes = patterns.iter().map(String::len).sum();
        within("patterns", n_bytes, QUERY_BYTES_MAX).map(|()| Self(patterns))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: QueryText,
    limit: usize,
    path: Option<PathText>,
    language: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "keyword arguments")]
struct Grep {
    pattern: PatternTexts,
    path: PathText,
    glob: Option<String>,
    literal: bool,
    ignore_case: bool,
    context: usize,
    limit: usize,
    before: Option<usize>,
    after: Option<usize>,
    words: bool,
    invert: bool,
    multiline: bool,
    smart_case: bool,
    r#type: Option<OneOrMore>,
    hidden: bool,
    ignore: bool,
    files: bool,
    counts: bool,
}

impl Grep {
    fn into_query(self) -> (String, GrepQuery) {
        let style = PatternStyle {
            literal: self.literal,
            case: Case::asked(self.ignore_case, self.smart_case),
            words: self.words,
            multiline: self.multiline,
            select: Select::asked(self.invert),
        };
        let context = GrepContext::asked(Some(self.context), self.before, self.after);
        let query = GrepQuery {
            patterns: self.pattern.0,
            style,
            report: GrepReport::asked(self.files, self.counts),
            glob: self.glob,
            types: self.r#type.map(OneOrMore::into_vec).unwrap_or_default(),
            skip_hidden: !self.hidden,
            skip_ignored: self.ignore,
            bounds: GrepBounds::asked(Some(self.limit), context),
        };
        (self.path.0, query)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::More(more) => more,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    path: PathText,
    offset: u64,
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    path: PathText,
    depth: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunks {
    path: PathText,
    lines: usize,
    prompt: bool,
    #[serde(default)]
    offset: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Likeness {
    query: QueryText,
    texts: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrap {
    text: String,
    label: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(query: &str, path: &str) -> Result<Search, Problem> {
        let arguments = json!({"query": query, "limit": 1, "path": path, "language": null});
        read_short(arguments.to_string().as_bytes())
    }

    #[test]
    fn long_queries_and_paths_are_refused_before_the_call_is_judged() {
        let x = |n| "x".repeat(n);
        assert!(search(&x(QUERY_BYTES_MAX), &x(PATH_BYTES_MAX - 1)).is_ok());
        // Every byte escaped.
        assert!(
            search(&"\u{1}".repeat(QUERY_BYTES_MAX), &"\u{1}".repeat(PATH_BYTES_MAX - 1)).is_ok()
        );
        for (query, path, cause) in [
            (x(QUERY_BYTES_MAX + 1), x(1), "a query of 4097 bytes, of 4096 at most"),
            (x(1), x(PATH_BYTES_MAX), "a path of 4096 bytes, of 4095 at most"),
            (x(16 << 20), x(1), "JSON of "),
            (x(1), x(16 << 20), "JSON of "),
        ] {
            let refused = search(&query, &path).unwrap_err();
            assert_eq!(refused.code, Code::BadArguments);
            assert!(refused.to_string().contains(cause), "{refused}");
        }
    }

    #[test]
    fn a_refusal_does_not_quote_a_whole_argument() {
        let arguments = json!({"text": "", "label": "", ("x".repeat(16 << 20)): 1}).to_string();
        let refused = read::<Wrap>(arguments.as_bytes()).map(drop).unwrap_err();
        assert!(refused.to_string().len() < 1000);
    }
}
