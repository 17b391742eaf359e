//! Implements each tool: reads arguments, calls the engine, builds the result. Has no rules of its own about what is
//! allowed.

use std::fmt::Write as _;

use base64::Engine as _;
use ringfence_engine::files::{
    Case, ContentKind, Cut, EntryKind, FileAccess, GREP_MATCHES_MAX, GrepBounds, GrepContext,
    GrepQuery, Grepped, Parents, PatternStyle, Precondition, WriteOptions,
};
use ringfence_engine::search::{SearchQuery, SearchResult};
use ringfence_engine::{CodeCall, CommandCall, SessionInfo, SessionOptions, SessionState};
use ringfence_spec::{Code, Problem, escape_name};
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult, ErrorData, JsonObject};
use rmcp::service::RequestContext;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::{
    self, Action, EditFile, ExecuteCode, Filters, Grep, Index, InvalidArguments, ListDir,
    OneSession, ReadFile, RunCommand, Search, TextEncoding, Wait, WriteFile,
};
use super::runs::Cancelled;
use super::tools::PolicyInForce;
use super::{McpServer, picture, runs, tool_result, truncate};
use crate::request;

/// Default number of file bytes in a result.
const READ_BYTES: u64 = 20_000;

/// Maximum number of file bytes in a result.
const READ_BYTES_MAX: u64 = 60_000;

/// Maximum number of directory entries in a result.
const ENTRIES_MAX: usize = 500;

/// The longest that `wait` waits.
const WAIT_S_MAX: f64 = 60.0;

/// Maximum number of hits in a result.
const SEARCH_HITS_MAX: usize = 50;

/// Lines before and after a match of `grep`, as its schema says.
const GREP_CONTEXT_MAX: usize = 5;

/// Maximum characters of a listing as text; the structured data has all of it.
const LISTING_CHARS_MAX: usize = 8_000;

/// Reason why there is no result of the tool's own.
enum Stop {
    Problem(Problem),
    InvalidArguments(InvalidArguments),
    Cancelled,
}

impl From<InvalidArguments> for Stop {
    fn from(misfit: InvalidArguments) -> Self {
        Self::InvalidArguments(misfit)
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Cancelled> for Stop {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

type Answered = Result<CallToolResult, Stop>;

/// Result of a tool that starts a run, which may outlast its call.
type StartedCall = Result<CallToolResponse, Stop>;

/// Awaits the answer of a search. A cancelled request drops it, which ends the search and frees its slot for another call.
async fn until_cancelled(
    context: &RequestContext<RoleServer>,
    answer: impl Future<Output = Answered>,
) -> StartedCall {
    tokio::select! {
        answered = answer => answered.map(Into::into),
        () = context.ct.cancelled() => Err(Stop::Cancelled),
    }
}

impl McpServer {
    /// Calls a tool by name.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: &JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answered = match name {
            "execute_code" => self.execute_code(arguments, context).await,
            "run_command" => self.run_command(arguments, context).await,
            "wait" => self.wait(arguments, context).await.map(Into::into),
            "read_file" => self.read_file(arguments).await.map(Into::into),
            "write_file" => self.write_file(arguments).await.map(Into::into),
            "edit_file" => self.edit_file(arguments).await.map(Into::into),
            "list_dir" => self.list_dir(arguments).await.map(Into::into),
            "grep" => until_cancelled(context, self.grep(arguments)).await,
            "search" => until_cancelled(context, self.search(arguments)).await,
            "index" => until_cancelled(context, self.index(arguments)).await,
            "session" => self.session(arguments).await.map(Into::into),
            _ => return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None)),
        };
        let problem = match answered {
            Ok(result) => return Ok(result),
            Err(Stop::Problem(problem)) => problem,
            Err(Stop::InvalidArguments(misfit)) => {
                let tools = self.tools();
                let schema = tools.iter().find(|t| t.name == name).map(|t| &*t.input_schema);
                arguments::problem(name, schema, arguments, misfit)
            }
            // The protocol sends no response to a cancelled request.
            Err(Stop::Cancelled) => {
                return Err(ErrorData::internal_error("the call was cancelled", None));
            }
        };
        let problem = match problem.code {
            Code::PathOutside if PolicyInForce::of(&self.engine).commands_see_users_files() => {
                let hint = problem
                    .hint
                    .as_ref()
                    .map(|hint| format!("{hint}; run_command sees the user's own files"));
                problem.hint(hint.unwrap_or_default())
            }
            _ => problem,
        };
        Ok(match name {
            "execute_code" | "run_command" | "wait" => tool_result::not_started(&problem).into(),
            _ => tool_result::not_done(&problem).into(),
        })
    }

    async fn execute_code(
        &self,
        arguments: &JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> StartedCall {
        let ExecuteCode { code, session, timeout_s } = arguments::read(arguments)?;
        let timeout = request::seconds(timeout_s)?;
        let call = CodeCall { code: code.into_bytes(), session, timeout, ..CodeCall::default() };
        Ok(self.runs.start(call.into(), context).await?)
    }

    async fn run_command(
        &self,
        arguments: &JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> StartedCall {
        let RunCommand { command, session, cwd, stdin, timeout_s } = arguments::read(arguments)?;
        let timeout = request::seconds(timeout_s)?;
        let call = CommandCall {
            session,
            stdin: stdin.unwrap_or_default().into_bytes(),
            timeout,
            ..request::command(request::shell(command), cwd)?
        };
        Ok(self.runs.start(call.into(), context).await?)
    }

    async fn wait(&self, arguments: &JsonObject, context: &RequestContext<RoleServer>) -> Answered {
        let Wait { run_id, timeout_s, cursor } = arguments::read(arguments)?;
        let cursor = cursor.map(|cursor| cursor.parse()).transpose().map_err(|()| {
            Problem::usage(Code::BadArguments, "`cursor` is not one")
                .hint("pass the `cursor` of the last answer, or leave it out")
        })?;
        let patience = match timeout_s {
            None => runs::PATIENCE,
            Some(seconds) if (0.0..=WAIT_S_MAX).contains(&seconds) => {
                std::time::Duration::from_secs_f64(seconds)
            }
            Some(_) => {
                let message = format!("`timeout_s` is not between 0 and {WAIT_S_MAX}");
                return Err(Problem::usage(Code::BadArguments, message).into());
            }
        };
        Ok(self.runs.wait(&run_id, patience, cursor.unwrap_or_default(), context).await?)
    }

    async fn read_file(&self, arguments: &JsonObject) -> Answered {
        let ReadFile { session, path, offset, limit } = arguments::read(arguments)?;
        let start = offset.unwrap_or(0);
        let bytes_max = limit.unwrap_or(READ_BYTES).min(READ_BYTES_MAX);
        let read = |bytes_max| {
            self.engine.file_read(
                &self.client,
                &session,
                path.clone().into(),
                start,
                Some(bytes_max),
            )
        };
        let mut contents = read(bytes_max).await?;
        let media_type = picture::media_type(&contents.bytes);
        let whole_image = media_type.is_some()
            && (offset, limit) == (None, None)
            && contents.total_bytes <= picture::SOURCE_BYTES_MAX;
        if whole_image && contents.more {
            contents = read(picture::SOURCE_BYTES_MAX).await?;
        }
        if contents.more && contents.kind == ContentKind::Text {
            truncate::leave_cut_character(&mut contents.bytes);
        }
        let end = start.saturating_add(contents.bytes.len() as u64);
        let next_offset = contents.more.then_some(end);
        let n_bytes = contents.bytes.len();
        let image = if whole_image {
            let bytes = contents.bytes.clone();
            // Decoding may take a while.
            tokio::task::spawn_blocking(move || picture::shown(&bytes)).await.ok().flatten()
        } else {
            None
        };
        let (content, encoding) = match contents.kind {
            _ if image.is_some() => (None, None),
            ContentKind::Text => {
                (Some(String::from_utf8_lossy(&contents.bytes).into_owned()), Some("utf-8"))
            }
            ContentKind::Binary => {
                let encoded = base64::engine::general_purpose::STANDARD.encode(&contents.bytes);
                (Some(encoded), Some("base64"))
            }
        };
        let mut text = match (&content, encoding) {
            _ if n_bytes == 0 && contents.total_bytes == 0 => "(the file is empty)".to_owned(),
            _ if n_bytes == 0 => {
                format!("(nothing from byte {start} on: the file has {})", contents.total_bytes)
            }
            // The structured data has the text unescaped.
            (Some(content), Some("utf-8")) => ringfence_engine::shown(content),
            _ => format!("{}: {n_bytes} bytes that are no text", escape_name(&path)),
        };
        if let Some(next) = next_offset {
            let _ = write!(
                text,
                "\n[bytes {start} to {end} of {}; the next part begins at offset {next}]",
                contents.total_bytes
            );
        }
        let mut result = tool_result::done(
            text,
            json!({
                "path": path, "content": content, "encoding": encoding, "media_type": media_type,
                "total_bytes": contents.total_bytes, "next_offset": next_offset, "sha256": contents.sha256,
            }),
        );
        result.content.extend(image);
        Ok(result)
    }

    async fn write_file(&self, arguments: &JsonObject) -> Answered {
        let WriteFile { session, path, content, encoding } = arguments::read(arguments)?;
        let content = match encoding {
            Some(TextEncoding::Base64) => base64::engine::general_purpose::STANDARD
                .decode(content.trim())
                .map_err(|error| {
                    Problem::usage(Code::BadArguments, "`content` is not base64").cause(error)
                })?,
            Some(TextEncoding::Utf8) | None => content.into_bytes(),
        };
        let options = WriteOptions { parents: Parents::Create, ..WriteOptions::default() };
        let written = self
            .engine
            .file_write(&self.client, &session, path.clone().into(), content, options)
            .await?;
        let verb = if written.created { "created" } else { "replaced" };
        let text = format!("{verb} {} ({} bytes)", escape_name(&path), written.total_bytes);
        Ok(tool_result::done(
            text,
            json!({
                "path": path, "created": written.created,
                "total_bytes": written.total_bytes, "sha256": written.sha256,
            }),
        ))
    }

    async fn edit_file(&self, arguments: &JsonObject) -> Answered {
        let EditFile { session, path, edits } = arguments::read(arguments)?;
        let edited = self.engine.file_edit(
            &self.client,
            &session,
            path.clone().into(),
            edits,
            Precondition::Any,
        );
        let (written, n) = edited.await?;
        let text =
            format!("{n} replaced in {} ({} bytes)", escape_name(&path), written.total_bytes);
        Ok(tool_result::done(
            text,
            json!({
                "path": path, "n_replaced": n,
                "total_bytes": written.total_bytes, "sha256": written.sha256,
            }),
        ))
    }

    async fn list_dir(&self, arguments: &JsonObject) -> Answered {
        let ListDir { session, path, depth } = arguments::read(arguments)?;
        let depth = usize::try_from(depth.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
        let listing = self
            .engine
            .file_list(&self.client, &session, path.clone().into(), depth, ENTRIES_MAX)
            .await?;
        let mut text = String::new();
        for entry in &listing.entries {
            let _ = match entry.kind {
                EntryKind::Directory => writeln!(text, "{}/", escape_name(&entry.path)),
                _ => writeln!(text, "{}  {} bytes", escape_name(&entry.path), entry.bytes),
            };
        }
        if listing.truncated {
            text.push_str("[there are more; list a directory below]\n");
        }
        if text.is_empty() {
            text.push_str("(empty)");
        }
        truncate::text(&mut text, LISTING_CHARS_MAX);
        Ok(tool_result::done(
            text,
            json!({
                "path": path, "entries": listing.entries, "truncated": listing.truncated,
            }),
        ))
    }

    async fn grep(&self, arguments: &JsonObject) -> Answered {
        let Grep { session, pattern, path, glob, literal, ignore_case, context, limit } =
            arguments::read(arguments)?;
        let context = context.map(|n| n.min(GREP_CONTEXT_MAX));
        let query = GrepQuery {
            patterns: vec![pattern],
            style: PatternStyle {
                literal,
                case: Case::asked(ignore_case, false),
                ..PatternStyle::default()
            },
            glob,
            bounds: GrepBounds::asked(limit, GrepContext::asked(context, None, None)),
            ..GrepQuery::default()
        };
        let found = self.engine.file_grep(&self.client, &session, path.into(), query).await?;
        let mut text = lines(&found);
        truncate::text(&mut text, LISTING_CHARS_MAX);
        Ok(tool_result::done(text, serde_json::to_value(&found).unwrap_or_default()))
    }

    async fn search(&self, arguments: &JsonObject) -> Answered {
        let Search { session, query, limit, filters } = arguments::read(arguments)?;
        let Filters { glob, language } = filters.unwrap_or_default();
        let limit = limit.unwrap_or(0).min(SEARCH_HITS_MAX);
        let query = SearchQuery { query, limit, glob, language };
        let found = self.engine.search(&self.client, &session, query).await?;
        let mut text = hits(&found);
        truncate::text(&mut text, LISTING_CHARS_MAX);
        Ok(tool_result::done(text, serde_json::to_value(&found).unwrap_or_default()))
    }

    async fn index(&self, arguments: &JsonObject) -> Answered {
        let Index { session, path } = arguments::read(arguments)?;
        let report = self.engine.index(&self.client, &session, path.into()).await?;
        let text = format!(
            "{} files indexed, {} unchanged, {} left out; {} files in all",
            report.indexed, report.unchanged, report.skipped, report.n_files
        );
        Ok(tool_result::done(text, serde_json::to_value(&report).unwrap_or_default()))
    }

    async fn session(&self, arguments: &JsonObject) -> Answered {
        let OneSession { action, session, cell, read_only } = arguments::read(arguments)?;
        if read_only.is_some() && action != Action::Create {
            return Err(misplaced("read_only", "create").into());
        }
        if cell.is_some() && action != Action::Rollback {
            return Err(misplaced("cell", "rollback").into());
        }
        let (engine, client) = (&self.engine, &*self.client);
        match (action, session) {
            (Action::Create, None) => {
                let access = FileAccess::from_read_only(read_only.unwrap_or(false));
                let state = engine.session_create(client, SessionOptions { access }).await?;
                Ok(made("created", &state))
            }
            (Action::Create, Some(_)) => Err(Problem::usage(
                Code::BadArguments,
                "`create` takes no `session`: the id is made here and cannot be chosen",
            )
            .into()),
            (Action::Info, None) => {
                let states = engine.session_list(client).await?;
                let mut text = format!("{} sessions", states.len());
                for state in &states {
                    let _ = write!(text, "\n{}", state.id);
                }
                let sessions: Vec<Value> = states.iter().map(shown).collect();
                Ok(tool_result::done(
                    text,
                    json!({"session_id": null, "info": null, "sessions": sessions}),
                ))
            }
            (Action::Info, Some(id)) => {
                let info = engine.session_info(client, &id).await?;
                Ok(told(&info))
            }
            (Action::Fork, Some(id)) => {
                let state = engine.session_fork(client, &id).await?;
                Ok(made("copied the files to", &state))
            }
            (Action::Rollback, Some(id)) => {
                let Some(cell) = cell else {
                    return Err(Problem::usage(Code::BadArguments, "`rollback` needs `cell`")
                        .hint("`info` lists the cells one can go back to in `checkpoints`")
                        .into());
                };
                let info = engine.session_rollback(client, &id, cell).await?;
                Ok(told(&info))
            }
            (Action::Close, Some(id)) => {
                engine.session_close(client, &id).await?;
                let text = format!("closed session {id} and deleted its files");
                Ok(tool_result::done(
                    text,
                    json!({"session_id": id, "info": null, "sessions": null}),
                ))
            }
            (Action::Fork | Action::Rollback | Action::Close, None) => {
                Err(Problem::usage(Code::BadArguments, "this action needs `session`")
                    .hint("pass the id that `create` gave; `info` without `session` lists them")
                    .into())
            }
        }
    }
}

/// Formats hits: path, lines and name of each, and its text.
fn hits(found: &SearchResult) -> String {
    let mut text = String::new();
    for hit in &found.hits {
        let symbol = hit.symbol.as_deref().map(|s| format!(" {s}")).unwrap_or_default();
        let path = escape_name(&hit.path);
        let _ = writeln!(text, "{path}:{}-{}{symbol}\n{}", hit.start_line, hit.end_line, hit.text);
    }
    let mut text = ringfence_engine::shown(&text);
    if found.hits.is_empty() {
        let _ =
            writeln!(text, "nothing fits in {} files; try other words, or `grep`", found.n_files);
    }
    if !found.complete {
        text.push_str("[not every file is indexed yet; search again, or call `index`]");
    }
    if let Some(note) = &found.ranking_note {
        let _ = write!(text, "[{note}]");
    }
    text
}

/// Formats matches as grep does, escaped for display, with the bound that ended the search.
fn lines(found: &Grepped) -> String {
    let mut text = ringfence_engine::shown(&found.to_string());
    if text.is_empty() {
        let _ = writeln!(text, "no match in {} files", found.n_files);
    }
    text.push_str(match found.cut {
        None => "",
        Some(Cut::Matches) if found.matches.len() >= GREP_MATCHES_MAX => {
            "[there are more than one answer can have; narrow the pattern, `path` or `glob`]"
        }
        Some(Cut::Matches) => "[there are more; ask for more with `limit`, or narrow the pattern]",
        Some(Cut::Bytes) => {
            "[not everything was searched: too many bytes; narrow `path` or `glob`]"
        }
        Some(Cut::Time) => "[not everything was searched in 10 seconds; narrow `path` or `glob`]",
    });
    text
}

fn misplaced(argument: &str, action: &str) -> Problem {
    Problem::usage(Code::BadArguments, format!("`{argument}` is for the action `{action}`"))
        .hint(format!("leave `{argument}` out"))
}

fn made(verb: &str, state: &SessionState) -> CallToolResult {
    let text = format!("{verb} session {}", state.id);
    tool_result::done(text, json!({"session_id": state.id, "info": shown(state), "sessions": null}))
}

fn told(info: &SessionInfo) -> CallToolResult {
    let info_shown = shown(info);
    let text = format!(
        "session {}: {} cells run, variables {}, checkpoints {:?}",
        info.state.id,
        info.state.n_cells,
        info_shown["repl"].as_str().unwrap_or_default(),
        info.checkpoints
    );
    tool_result::done(
        text,
        json!({"session_id": info.state.id, "info": info_shown, "sessions": null}),
    )
}

/// Serializes the fields of a session that are of use to a model.
fn shown(session: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(session).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        for unneeded in ["owner", "today"] {
            fields.remove(unneeded);
        }
    }
    value
}
