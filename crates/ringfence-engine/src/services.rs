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
    LIST_ENTRIES_MAX, PatternStyle, Select,
};
use crate::record::StartedCall;
use crate::search::{ChunkRange, ChunkSize, SearchQuery};
use crate::sessions::{Daily, Session};

/// Calls of one run.
const CALLS_MAX: u32 = 10_000;

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
                let Search { query, limit, path, language } = read(arguments)?;
                let asked = SearchQuery { query, limit, glob: path, language };
                call("search", &asked.query, &mut |_| {
                    state.sessions()?.take_daily(session, Daily::Search)?;
                    written(&session.search(&asked, state.vectors.as_ref(), stop)?)
                })
            }
            "grep" => {
                let asked: Grep = read(arguments)?;
                let (path, query) = asked.into_query();
                call("grep", &path, &mut |begun| {
                    let looked_for = format!("{} in {path}", query.shown());
                    begun.detail(|entry| entry.arguments(looked_for));
                    let files = session.files()?;
                    written(&files.grep_cancellable(&path, &query, Arc::clone(stop))?)
                })
            }
            "read" => {
                let Read { path, offset, limit } = read(arguments)?;
                call("read_file", &path, &mut |begun| {
                    let contents = session.files()?.read(&path, offset, limit)?;
                    begun.bytes_read += contents.bytes.len() as u64;
                    let text = String::from_utf8_lossy(&contents.bytes);
                    Ok(json!({"text": text, "more": contents.more}).to_string())
                })
            }
            "files" => {
                let Files { path, depth } = read(arguments)?;
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
                let Chunks { path, lines, prompt, offset } = read(arguments)?;
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
                let Likeness { query, texts } = read(arguments)?;
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
        Problem::usage(Code::BadArguments, "the arguments of the call are wrong").cause(error)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    limit: usize,
    path: Option<String>,
    language: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "keyword arguments")]
struct Grep {
    pattern: OneOrMore,
    path: String,
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
            patterns: self.pattern.into_vec(),
            style,
            report: GrepReport::asked(self.files, self.counts),
            glob: self.glob,
            types: self.r#type.map(OneOrMore::into_vec).unwrap_or_default(),
            skip_hidden: !self.hidden,
            skip_ignored: self.ignore,
            bounds: GrepBounds::asked(Some(self.limit), context),
        };
        (self.path, query)
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
    path: String,
    offset: u64,
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    path: String,
    depth: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunks {
    path: String,
    lines: usize,
    prompt: bool,
    #[serde(default)]
    offset: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Likeness {
    query: String,
    texts: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrap {
    text: String,
    label: String,
}
