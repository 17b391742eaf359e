//! Response bodies that are made while they are sent: events and large files. Bounds the streams of each client.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use hyper::body::{Bytes, Frame};
use ringfence_engine::files::OpenedFile;
use ringfence_spec::{Code, Problem};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::api_error::ApiError;
use super::scope::Caller;

/// Maximum event streams of one client.
const STREAMS_MAX: usize = 16;

/// Maximum streams of messages of one client: one for each of its MCP sessions.
const MESSAGE_STREAMS_MAX: usize = super::mcp::MCP_SESSIONS_MAX;

/// Maximum uploads of one client that are spooled at once.
const UPLOADS_MAX: usize = 4;

/// Parts of a body that wait to be sent.
const WAITING_MAX: usize = 2;

/// Bytes of a file that are read at once.
const PART_BYTES: usize = 256 << 10;

/// Producer's end of a body.
pub(super) type Sender = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// Makes a body, and the end that its parts are sent to. A dropped sender ends the body; a dropped body closes the sender.
pub(super) fn channel() -> (Sender, Body) {
    let (sender, parts) = mpsc::channel(WAITING_MAX);
    (sender, Body::new(ChannelBody(parts)))
}

struct ChannelBody(mpsc::Receiver<Result<Bytes, std::io::Error>>);

impl hyper::body::Body for ChannelBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}

/// Sends a body that another part of the service makes, holding a slot until its end. A token that is no longer valid ends it.
pub(super) fn holding(body: Body, slot: StreamSlot) -> Body {
    let ended = Box::pin(slot.end.clone().cancelled_owned());
    Body::new(HoldingBody { body, ended, _slot: slot })
}

struct HoldingBody {
    body: Body,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    _slot: StreamSlot,
}

impl hyper::body::Body for HoldingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

/// Sends a range of a file, a part at a time, until `end` is cancelled. `held` is dropped at the end. A file that shrank meanwhile breaks the body off, so
/// that its client does not take it for whole.
pub(super) fn file(
    file: OpenedFile,
    range: std::ops::Range<u64>,
    end: CancellationToken,
    held: impl Send + 'static,
) -> Body {
    let (sender, body) = channel();
    tokio::spawn(async move {
        let _held = held;
        let (mut file, mut at) = (file, range.start);
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let ask = left.min(PART_BYTES);
            let read = tokio::task::spawn_blocking(move || {
                let part = file.read_at(at, ask);
                (file, part)
            });
            let part = match read.await {
                Ok((same, Ok(part))) if !part.is_empty() => {
                    file = same;
                    part
                }
                _ => {
                    let gone = std::io::Error::other("the file changed while it was sent");
                    let _ = sender.send(Err(gone)).await;
                    return;
                }
            };
            at += part.len() as u64;
            let sent = tokio::select! {
                biased;
                () = end.cancelled() => Err(std::io::Error::other("the token is not valid any more")),
                sent = sender.send(Ok(part.into())) => Ok(sent.is_ok()),
            };
            match sent {
                Ok(true) => {}
                Ok(false) => return,
                Err(ended) => {
                    let _ = sender.try_send(Err(ended));
                    return;
                }
            }
        }
    });
    body
}

/// Streams and uploads of each client.
#[derive(Debug, Default)]
pub(super) struct StreamSlots {
    clients: Mutex<HashMap<Caller, ClientSlots>>,
}

#[derive(Clone, Debug)]
struct ClientSlots {
    streams: Arc<Semaphore>,
    messages: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    end: CancellationToken,
}

/// Right to one stream, and the signal that ends it.
#[derive(Debug)]
pub(super) struct StreamSlot {
    _permit: OwnedSemaphorePermit,
    /// Cancelled when the client may not read any more.
    pub(super) end: CancellationToken,
}

impl StreamSlots {
    /// Takes a slot for an event stream.
    pub(super) fn stream(&self, caller: &Caller) -> Result<StreamSlot, ApiError> {
        let ClientSlots { streams, end, .. } = self.of(caller);
        let permit = streams.try_acquire_owned().map_err(|_| too_many(STREAMS_MAX, "streams"))?;
        Ok(StreamSlot { _permit: permit, end })
    }

    /// Takes a slot for a stream of the server's messages to an MCP session.
    pub(super) fn messages(&self, caller: &Caller) -> Result<StreamSlot, ApiError> {
        let ClientSlots { messages, end, .. } = self.of(caller);
        let permit = messages.try_acquire_owned();
        let permit = permit.map_err(|_| too_many(MESSAGE_STREAMS_MAX, "message streams"))?;
        Ok(StreamSlot { _permit: permit, end })
    }

    /// Takes a slot for an upload.
    pub(super) fn upload(&self, caller: &Caller) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = self.of(caller).uploads.try_acquire_owned();
        permit.map_err(|_| too_many(UPLOADS_MAX, "uploads"))
    }

    /// Returns what is cancelled when the client may neither read nor write any more.
    pub(super) fn end_of(&self, caller: &Caller) -> CancellationToken {
        self.of(caller).end
    }

    /// Ends the streams of every client that is not in this set.
    pub(super) fn keep_only(&self, callers: &HashSet<Caller>) {
        self.lock().retain(|caller, slots| {
            let keep = callers.contains(caller);
            if !keep {
                slots.end.cancel();
            }
            keep
        });
    }

    fn of(&self, caller: &Caller) -> ClientSlots {
        let mut clients = self.lock();
        let slots = clients.entry(caller.clone()).or_insert_with(|| ClientSlots {
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            messages: Arc::new(Semaphore::new(MESSAGE_STREAMS_MAX)),
            uploads: Arc::new(Semaphore::new(UPLOADS_MAX)),
            end: CancellationToken::new(),
        });
        slots.clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Caller, ClientSlots>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many(n: usize, what: &str) -> ApiError {
    Problem::refused(Code::TooManyStreams, format!("{n} {what} of yours are open"))
        .hint("close one of them")
        .retry_after_ms(1_000)
        .into()
}
