//! One message a line, bounded: what is too long, no JSON or no message is answered and forgotten, and the line behind it is read
//! as if nothing had been. Keeps count of requests in flight.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::watch;

/// A line longer than this is refused, unread.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// Memory kept for the next line.
const LINE_BYTES_KEPT: usize = 1 << 20;

/// Requests of one client that have no answer yet.
const IN_FLIGHT_MAX: usize = 256;

/// Messages from a reader, answers to a writer.
#[derive(Debug)]
pub(super) struct Lines<R, W> {
    read: BufReader<R>,
    // Kept here because a read may be dropped halfway and taken up again.
    line: Vec<u8>,
    skipping: bool,
    begun: bool,
    in_flight: InFlight,
    write: Arc<tokio::sync::Mutex<W>>,
    ending: Ending,
}

/// Says that the client has left.
#[derive(Clone, Debug)]
pub(super) struct Ending(Arc<watch::Sender<bool>>);

/// Hears it.
#[derive(Debug)]
pub(super) struct Ended(watch::Receiver<bool>);

/// Both sides.
pub(super) fn ended() -> (Ending, Ended) {
    let (ending, ended) = watch::channel(false);
    (Ending(Arc::new(ending)), Ended(ended))
}

impl Ended {
    /// Returns once the client has left.
    pub(super) async fn wait(&mut self) {
        // Whoever says it is gone: so is the client.
        let _ = self.0.wait_for(|ended| *ended).await;
    }
}

/// What a read of a line came to.
enum Read {
    Line,
    TooLong,
    End,
}

/// What there is to do about a line.
enum Taken {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    Answer(ErrorData, Option<RequestId>),
    Nothing,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(super) fn new(read: R, write: W, ending: Ending) -> Self {
        Self {
            read: BufReader::with_capacity(64 << 10, read),
            line: Vec::new(),
            skipping: false,
            begun: false,
            in_flight: InFlight::default(),
            write: Arc::new(tokio::sync::Mutex::new(write)),
            ending,
        }
    }

    /// Reads up to the next newline. Nothing is lost when this is dropped: between taking bytes and keeping them it never waits.
    async fn read_line(&mut self) -> Read {
        loop {
            let Ok(bytes) = self.read.fill_buf().await else { return Read::End };
            if bytes.is_empty() {
                // A last line may lack its newline.
                return if self.line.is_empty() { Read::End } else { Read::Line };
            }
            let newline = bytes.iter().position(|b| *b == b'\n');
            let n = newline.map_or(bytes.len(), |at| at + 1);
            let fits = self.line.len() + n <= LINE_BYTES_MAX;
            if !self.skipping && fits {
                self.line.extend_from_slice(&bytes[..n]);
            }
            self.read.consume(n);
            if !fits {
                self.skipping = true;
                self.line = Vec::new();
            }
            if newline.is_some() {
                return if std::mem::take(&mut self.skipping) { Read::TooLong } else { Read::Line };
            }
        }
    }

    fn take(&mut self) -> Taken {
        let taken = self.understand();
        self.line.clear();
        self.line.shrink_to(LINE_BYTES_KEPT);
        taken
    }

    fn understand(&mut self) -> Taken {
        let line = self.line.trim_ascii();
        // RFC 8259, 8.1: a reader may ignore a byte order mark.
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if line.is_empty() {
            return Taken::Nothing;
        }
        let message = match serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(line) {
            Ok(message) => message,
            Err(error) => return refused(line, &error),
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                self.begun = true;
                if let Err(refusal) = self.in_flight.add(&request.id) {
                    return refusal;
                }
            }
            // Before the first request there is nothing that either could be about.
            _ if !self.begun => return Taken::Nothing,
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.in_flight.remove(id);
                }
            }
            _ => {}
        }
        Taken::Message(Box::new(message))
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(response) => self.in_flight.remove(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.in_flight.remove(id);
                }
            }
            _ => {}
        }
        write(Arc::clone(&self.write), message, self.ending.clone())
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let taken = match self.read_line().await {
                Read::Line => self.take(),
                Read::TooLong => {
                    let said = format!("a message has at most {LINE_BYTES_MAX} bytes");
                    Taken::Answer(ErrorData::invalid_request(said, None), None)
                }
                Read::End => {
                    self.ending.0.send_replace(true);
                    return None;
                }
            };
            match taken {
                Taken::Message(message) => return Some(*message),
                Taken::Nothing => {}
                Taken::Answer(error, id) => {
                    let answer = ServerJsonRpcMessage::error(error, id);
                    // On its own, because this future may be dropped halfway and the answer must not be.
                    tokio::spawn(write(Arc::clone(&self.write), answer, self.ending.clone()));
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.write.lock().await.shutdown().await
    }
}

async fn write<W: AsyncWrite + Send + Unpin>(
    to: Arc<tokio::sync::Mutex<W>>,
    message: TxJsonRpcMessage<RoleServer>,
    ending: Ending,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(&message)?;
    line.push(b'\n');
    let mut to = to.lock().await;
    let written = match to.write_all(&line).await {
        Ok(()) => to.flush().await,
        error => error,
    };
    if written.is_err() {
        // Nobody reads what we say any more.
        ending.0.send_replace(true);
    }
    written
}

/// What to say to a line that is no message. Who can be named is told by name; who sent a notification is told nothing.
fn refused(line: &[u8], error: &serde_json::Error) -> Taken {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return Taken::Answer(ErrorData::parse_error(format!("no JSON: {error}"), None), None);
    };
    let id = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    if id.is_none() && value.get("method").is_some_and(Value::is_string) {
        return Taken::Nothing;
    }
    Taken::Answer(ErrorData::invalid_request("no message of this protocol", None), id)
}

/// Ids of requests that have no answer yet.
#[derive(Clone, Debug, Default)]
struct InFlight(Arc<Mutex<HashSet<RequestId>>>);

impl InFlight {
    fn add(&self, id: &RequestId) -> Result<(), Taken> {
        /// The protocol leaves this range to servers.
        const BUSY: ErrorCode = ErrorCode(-32000);
        let mut ids = self.lock();
        if ids.contains(id) {
            // Without the id: with it, this would pass for the answer to the first.
            let said = format!("the id {id} belongs to a request that has no answer yet");
            return Err(Taken::Answer(ErrorData::invalid_request(said, None), None));
        }
        if ids.len() >= IN_FLIGHT_MAX {
            let said =
                format!("there are {IN_FLIGHT_MAX} requests without an answer; wait for one");
            return Err(Taken::Answer(ErrorData::new(BUSY, said, None), Some(id.clone())));
        }
        ids.insert(id.clone());
        Ok(())
    }

    fn remove(&self, id: &RequestId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
