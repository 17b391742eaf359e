//! Events: of one run, with its output as it is written, and of all runs of a client. As server-sent events
//! (`Accept: text/event-stream`), or as a page of JSON for clients that poll.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Bytes;
use ringfence_engine::{Feed, OpenLine, OutputCursor, OutputStream, Run as EngineRun, RunWatch};
use ringfence_spec::{Code, Face, Problem};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::schema::EventPage;
use crate::http::api_error::ApiError;
use crate::http::headers::is_media_type;
use crate::http::page::{LIMIT_MAX, PageQuery};
use crate::http::params::{Path, Query};
use crate::http::scope::{Run, Scoped};
use crate::http::streams::{self, StreamSlot};
use crate::http::{AppState, runs};

/// Interval of comments on a silent stream, so that clients and proxies know it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Time for which writes are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(20);

/// Time after which a line is sent that has not ended.
const OPEN_LINE: Duration = Duration::from_millis(200);

/// Milliseconds after which a client that lost its connection comes back.
const RETRY_MS: u32 = 1000;

/// An event.
#[derive(Debug, Serialize)]
struct Event {
    /// Place to come back to. None for an event that says what was lost.
    id: Option<String>,
    #[serde(rename = "event")]
    name: &'static str,
    data: Value,
}

/// Follow a run
///
/// `started`, then `stdout` and `stderr` as they are written, `lost` where output was dropped before it was read; after the
/// end a `denial` for each refusal, an `artifact` for each file, and `finished` with the outcome. With
/// `Accept: text/event-stream` a stream that ends with the run; else the events so far as JSON.
#[utoipa::path(
    get, path = "/runs/{id}/events", tag = "events", operation_id = "follow_run",
    params(("id" = String, Path, description = "The run"), PageQuery, ("Last-Event-ID" = Option<String>, Header, description = "`id` of the last event seen; goes before `cursor`, which takes one too")),
    responses(
        (status = 200, description = "Events", content((EventPage = "application/json"), (String = "text/event-stream"))),
        (status = 204, description = "The run has ended, and `Last-Event-ID` is its last event"),
    ),
)]
pub(super) async fn of_run(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    Path(id): Path<String>,
    Query(asked): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let run = app.engine.find_run(&may.caller.owner(), &id).ok_or_else(runs::unknown)?;
    let position = match last_seen(&headers, asked.cursor.as_deref()) {
        None => Position::Start,
        Some(text) => Position::parse(text).ok_or_else(bad_id)?,
    };
    // No client was given such an id while the run goes on.
    if matches!(position, Position::End(_)) && run.is_running() {
        return Err(bad_id());
    }
    let source = RunEvents { watch: run.watch(), run, position };
    if !wants_stream(&headers) {
        return Ok(page(source, asked.limit()?));
    }
    if source.is_over() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let slot = app.streams.stream(&may.caller)?;
    // Runs have their time to end, and so have their streams.
    Ok(stream(source, slot, CancellationToken::new()))
}

/// Follow your runs
///
/// `started` and `finished` of every run of yours, over REST and MCP. With `Accept: text/event-stream` a stream without an end;
/// else the events so far as JSON. The last 1024 events are kept until the service ends; `lost` says how many were dropped.
#[utoipa::path(
    get, path = "/events", tag = "events", operation_id = "follow_runs",
    params(PageQuery, ("Last-Event-ID" = Option<String>, Header, description = "`id` of the last event seen; goes before `cursor`, which takes one too")),
    responses((status = 200, description = "Events", content((EventPage = "application/json"), (String = "text/event-stream")))),
)]
pub(super) async fn of_client(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    Query(asked): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let feed = app.engine.run_feed(&may.caller.owner());
    let mut source =
        FeedEvents { watch: feed.watch(), feed, epoch: app.epoch, n: 0, is_restarted: false };
    if let Some(text) = last_seen(&headers, asked.cursor.as_deref()) {
        let (epoch, n) = text.split_once('-').ok_or_else(bad_id)?;
        let (epoch, n): (i64, u64) =
            (epoch.parse().map_err(|_| bad_id())?, n.parse().map_err(|_| bad_id())?);
        if epoch == app.epoch {
            source.n = n;
        } else {
            source.is_restarted = true;
        }
    }
    if !wants_stream(&headers) {
        return Ok(page(source, asked.limit()?));
    }
    let slot = app.streams.stream(&may.caller)?;
    Ok(stream(source, slot, app.drain.clone()))
}

/// Source of events.
trait Source: Send + 'static {
    /// Returns the events that are there, and goes behind them. The second result is true if no other can follow.
    fn take(&mut self, limit: usize, open_line: OpenLine) -> (Vec<Event>, bool);

    /// Waits until there may be more.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Returns the place behind the events taken so far.
    fn place(&self) -> String;
}

/// Place in the events of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Start,
    /// Behind this much of its output.
    Output(OutputCursor),
    /// Behind this many of the events that follow its end.
    End(usize),
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("end-") {
            Some(n) => n.parse().ok().map(Self::End),
            None => text.parse().ok().map(Self::Output),
        }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start => OutputCursor::default().fmt(f),
            Self::Output(cursor) => cursor.fmt(f),
            Self::End(n) => write!(f, "end-{n}"),
        }
    }
}

struct RunEvents {
    run: Arc<EngineRun>,
    watch: RunWatch,
    position: Position,
}

impl RunEvents {
    fn is_over(&self) -> bool {
        matches!(self.position, Position::End(n) if !self.run.is_running() && n >= self.last().len())
    }

    /// Events that follow the end.
    fn last(&self) -> Vec<(&'static str, Value)> {
        let outcome = match self.run.result() {
            Some(ended) => ended.outcome.worded_for(Face::Rest).into_owned(),
            None => self.run.cancelled(),
        };
        let denials = outcome.denials.iter().map(|denial| ("denial", json!(denial)));
        let artifacts = outcome.artifacts.iter().map(|artifact| ("artifact", json!(artifact)));
        denials.chain(artifacts).chain([("finished", json!(outcome))]).collect()
    }

    /// Takes output behind a cursor. Breaks if there is no more of it for now.
    fn take_output(
        &mut self,
        cursor: OutputCursor,
        limit: usize,
        open_line: OpenLine,
        events: &mut Vec<Event>,
    ) -> ControlFlow<()> {
        // Asked before the output is read: what was written before the end is read then.
        let is_over = !self.run.is_running();
        let live = self.run.live_after(cursor, if is_over { OpenLine::End } else { open_line });
        if live.lost_bytes > 0 {
            let hint = "it was written faster than it was read; the outcome has it, up to the output limit";
            let data = json!({"bytes": live.lost_bytes, "hint": hint});
            events.push(Event { id: None, name: "lost", data });
        }
        // At least one: `lost` has no id to come back to, so it is sent with the event behind it.
        let room = limit.saturating_sub(events.len()).max(1);
        let is_cut = live.chunks.len() > room;
        self.position =
            Position::Output(if is_cut { live.chunks[room - 1].cursor } else { live.cursor });
        for chunk in live.chunks.into_iter().take(room) {
            let name = match chunk.stream {
                OutputStream::Stdout => "stdout",
                OutputStream::Stderr => "stderr",
            };
            let data = json!({"data": chunk.data, "encoding": chunk.encoding});
            events.push(Event { id: Some(chunk.cursor.to_string()), name, data });
        }
        if is_cut || live.more {
            return ControlFlow::Continue(());
        }
        if is_over {
            self.position = Position::End(0);
        }
        ControlFlow::Break(())
    }

    /// Takes events that follow the end, behind the first `n`. Returns whether those were the last.
    fn take_last(&mut self, n: usize, limit: usize, events: &mut Vec<Event>) -> bool {
        let last = self.last();
        let n_last = last.len();
        let room = limit.saturating_sub(events.len());
        for (at, (name, data)) in last.into_iter().enumerate().skip(n).take(room) {
            self.position = Position::End(at + 1);
            events.push(Event { id: Some(self.position.to_string()), name, data });
        }
        matches!(self.position, Position::End(n) if n >= n_last)
    }
}

impl Source for RunEvents {
    fn take(&mut self, limit: usize, open_line: OpenLine) -> (Vec<Event>, bool) {
        let mut events = Vec::new();
        if self.position == Position::Start {
            let (run_id, session_id) = (self.run.id(), self.run.session());
            let data =
                json!({"run_id": run_id, "session_id": session_id, "at_ms": self.run.began_ms()});
            events.push(Event { id: Some(self.place()), name: "started", data });
            self.position = Position::Output(OutputCursor::default());
        }
        while let Position::Output(cursor) = self.position
            && events.len() < limit
            && self.take_output(cursor, limit, open_line, &mut events).is_continue()
        {}
        let Position::End(n) = self.position else { return (events, false) };
        let ended = self.take_last(n, limit, &mut events);
        (events, ended)
    }

    async fn changed(&mut self) {
        self.watch.changed().await;
    }

    fn place(&self) -> String {
        self.position.to_string()
    }
}

struct FeedEvents {
    feed: Arc<Feed>,
    watch: watch::Receiver<()>,
    /// Number of this life of the service: numbers of events begin anew with each.
    epoch: i64,
    n: u64,
    is_restarted: bool,
}

impl Source for FeedEvents {
    fn take(&mut self, limit: usize, _open_line: OpenLine) -> (Vec<Event>, bool) {
        let mut events = Vec::new();
        if std::mem::take(&mut self.is_restarted) {
            let data = json!({"events": null, "hint": "the service was restarted since"});
            events.push(Event { id: None, name: "lost", data });
        }
        let found = self.feed.after(self.n, limit);
        if found.n_lost > 0 {
            let hint = "they were dropped before they were read";
            let data = json!({"events": found.n_lost, "hint": hint});
            events.push(Event { id: None, name: "lost", data });
        }
        for event in found.events {
            self.n = event.n;
            events.push(Event {
                id: Some(self.place()),
                name: event.name,
                data: event.data.clone(),
            });
        }
        (events, false)
    }

    async fn changed(&mut self) {
        if self.watch.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn place(&self) -> String {
        format!("{}-{}", self.epoch, self.n)
    }
}

/// Answers with the events so far.
fn page(mut source: impl Source, limit: usize) -> Response {
    let (events, ended) = source.take(limit, OpenLine::Show);
    let next = source.place();
    Json(json!({"events": events, "next": next, "ended": ended})).into_response()
}

/// Answers with a stream of events, which ends with its source, its client, its token, or by `end`.
fn stream(source: impl Source, slot: StreamSlot, end: CancellationToken) -> Response {
    let (sender, body) = streams::channel();
    tokio::spawn(send_events(source, sender, slot, end));
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (kind, body).into_response()
}

/// Sends events until the stream ends. `slot` is held as long.
async fn send_events(
    mut source: impl Source,
    sender: streams::Sender,
    slot: StreamSlot,
    end: CancellationToken,
) {
    let mut text = format!("retry: {RETRY_MS}\n\n");
    let (mut beat, mut shown) = (Instant::now() + HEARTBEAT, Instant::now());
    let mut open_line = OpenLine::Show;
    loop {
        let (events, ended) = source.take(LIMIT_MAX, open_line);
        let is_full = events.len() >= LIMIT_MAX;
        for event in &events {
            write(&mut text, event);
        }
        if Instant::now() >= beat {
            text.push_str(": still here\n\n");
        }
        if !text.is_empty() {
            beat = Instant::now() + HEARTBEAT;
            let part = Bytes::from(std::mem::take(&mut text));
            tokio::select! {
                sent = sender.send(Ok(part)) => if sent.is_err() { return },
                () = slot.end.cancelled() => return,
            }
        }
        if ended {
            return;
        }
        if is_full {
            continue;
        }
        if open_line == OpenLine::Show {
            shown = Instant::now();
        }
        let is_held = open_line == OpenLine::Hold;
        let wake = if is_held { beat.min(shown + OPEN_LINE) } else { beat };
        tokio::select! {
            () = source.changed() => tokio::time::sleep(GATHER).await,
            () = tokio::time::sleep_until(wake) => {}
            () = sender.closed() => return,
            () = slot.end.cancelled() => return,
            () = end.cancelled() => return,
        }
        let is_due = shown.elapsed() >= OPEN_LINE;
        open_line = if is_due { OpenLine::Show } else { OpenLine::Hold };
    }
}

/// Writes an event as text. JSON has no line break outside of its escapes, so it is one line of data.
fn write(text: &mut String, event: &Event) {
    use std::fmt::Write as _;
    if let Some(id) = &event.id {
        let _ = writeln!(text, "id: {id}");
    }
    let _ = write!(text, "event: {}\ndata: {}\n\n", event.name, event.data);
}

fn wants_stream(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|accept| {
        accept.to_str().is_ok_and(|accept| {
            accept.split(',').any(|kind| is_media_type(kind, "text/event-stream"))
        })
    })
}

fn last_seen<'a>(headers: &'a HeaderMap, cursor: Option<&'a str>) -> Option<&'a str> {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    header.filter(|id| !id.is_empty()).or(cursor)
}

fn bad_id() -> ApiError {
    Problem::usage(Code::BadArguments, "this is not the id of an event")
        .hint("pass `id` of the last event seen, or leave it out to begin anew")
        .into()
}
