//! Transport with one message per line, bounded. A line that is too long, no JSON or no message gets an error response
//! and is dropped, and the next line is read as usual. Tracks the requests in flight.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta as _, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, watch};

use super::json_limits::{self, InvalidMessage};

/// Maximum bytes of a line. A longer one is rejected unparsed.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// Capacity of the line buffer that is kept for the next line.
const LINE_BYTES_KEPT: usize = 1 << 20;

/// Maximum number of requests of one client without a response.
const IN_FLIGHT_MAX: usize = 256;

/// Maximum number of pending error responses to invalid lines. A client that sends more of those without reading gets
/// no response to them.
const REFUSALS_MAX: usize = 64;

/// Transport that reads messages from `R` and writes responses to `W`.
#[derive(Debug)]
pub(super) struct LineTransport<R, W> {
    read: BufReader<R>,
    // A field, because a read may be dropped halfway and resumed.
    line: Vec<u8>,
    skipping: bool,
    begun: bool,
    in_flight: InFlight,
    refusals: Arc<Semaphore>,
    write: Arc<tokio::sync::Mutex<W>>,
    ending: Disconnect,
}

/// Signals that the client has disconnected.
#[derive(Clone, Debug)]
pub(super) struct Disconnect(Arc<watch::Sender<bool>>);

/// Receives the signal.
#[derive(Debug)]
pub(super) struct Disconnected(watch::Receiver<bool>);

/// Creates both sides of the signal.
pub(super) fn ended() -> (Disconnect, Disconnected) {
    let (ending, ended) = watch::channel(false);
    (Disconnect(Arc::new(ending)), Disconnected(ended))
}

impl Disconnected {
    /// Returns once the client has disconnected.
    pub(super) async fn wait(&mut self) {
        // If the sender is gone, so is the client.
        let _ = self.0.wait_for(|ended| *ended).await;
    }
}

/// Result of reading a line.
enum Read {
    Line,
    TooLong,
    End,
}

/// Action to take for a line.
enum Taken {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    Answer(ErrorData, Option<RequestId>),
    Nothing,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> LineTransport<R, W> {
    pub(super) fn new(read: R, write: W, ending: Disconnect) -> Self {
        Self {
            read: BufReader::with_capacity(64 << 10, read),
            line: Vec::new(),
            skipping: false,
            begun: false,
            in_flight: InFlight::default(),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            write: Arc::new(tokio::sync::Mutex::new(write)),
            ending,
        }
    }

    /// Reads up to the next newline. Loses nothing when dropped: it never waits between taking bytes and storing them.
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
        if let Err(InvalidMessage { code, said, id }) = json_limits::of(line) {
            return Taken::Answer(ErrorData::new(code, said, None), id);
        }
        let message = match serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(line) {
            Ok(message) => message,
            Err(error) => return refused(line, &error),
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                if let Err(refusal) = self.in_flight.add(&request.id) {
                    return refusal;
                }
                self.begun = self.begun || begins(&request.request);
            }
            // Until then the SDK waits for requests, and ends when it gets anything else.
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

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
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
                    let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else {
                        continue;
                    };
                    let answer = ServerJsonRpcMessage::error(error, id);
                    let writing = write(Arc::clone(&self.write), answer, self.ending.clone());
                    // In its own task, because this future may be dropped halfway and the response must not be.
                    tokio::spawn(async move {
                        let _ = writing.await;
                        drop(permit);
                    });
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.write.lock().await.shutdown().await
    }
}

/// Returns whether the SDK treats this request as the beginning of a conversation: `initialize`, or a request that
/// needs none. The SDK answers requests before that, and keeps waiting.
fn begins(request: &ClientRequest) -> bool {
    let about = request.get_meta();
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        _ => {
            about.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && about
                    .protocol_version()
                    .is_some_and(|v| ProtocolVersion::KNOWN_VERSIONS.contains(&v))
        }
    }
}

async fn write<W: AsyncWrite + Send + Unpin>(
    to: Arc<tokio::sync::Mutex<W>>,
    message: TxJsonRpcMessage<RoleServer>,
    ending: Disconnect,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(&message)?;
    line.push(b'\n');
    let mut to = to.lock().await;
    let written = match to.write_all(&line).await {
        Ok(()) => to.flush().await,
        error => error,
    };
    if written.is_err() {
        // The client does not read any more.
        ending.0.send_replace(true);
    }
    written
}

/// Response to a line that is not a message. It has the id of the request if there is one; a notification gets no
/// response.
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

/// Ids of requests without a response.
#[derive(Clone, Debug, Default)]
struct InFlight(Arc<Mutex<HashSet<RequestId>>>);

impl InFlight {
    fn add(&self, id: &RequestId) -> Result<(), Taken> {
        /// The protocol leaves this range to servers.
        const BUSY: ErrorCode = ErrorCode(-32000);
        let mut ids = self.lock();
        if ids.contains(id) {
            // Without the id: with it, this would be taken for the response to the first request.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ringfence_testing::{Json, json};

    /// Sends bytes in pieces of some size; returns the messages that came through, and the responses.
    fn through(sent: &[u8], piece: usize) -> (Vec<RxJsonRpcMessage<RoleServer>>, Vec<Json>) {
        let _limit = ringfence_testing::TimeLimit::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (ending, mut end) = ended();
            let (mut client, input) = tokio::io::duplex(piece);
            let (output, mut said) = tokio::io::duplex(32 << 20);
            let mut lines = LineTransport::new(input, output, ending);
            let sent = sent.to_vec();
            let sending = tokio::spawn(async move {
                client.write_all(&sent).await.unwrap();
            });
            let mut messages = Vec::new();
            while let Some(message) = lines.receive().await {
                messages.push(message);
            }
            sending.await.unwrap();
            end.wait().await;
            // Responses are written by tasks of their own, which run whenever this one waits.
            tokio::task::yield_now().await;
            drop(lines);
            let mut text = String::new();
            tokio::io::AsyncReadExt::read_to_string(&mut said, &mut text).await.unwrap();
            (messages, Json::lines(&text))
        })
    }

    const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

    fn ping(id: u32) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_one_read() {
        let mut sent = vec![b'x'; LINE_BYTES_MAX + 1];
        sent.extend(format!("\n{}\n", ping(1)).as_bytes());
        let (messages, said) = through(&sent, 1 << 16);
        assert_eq!(messages.len(), 1);
        assert_eq!(said.len(), 1);
        assert_eq!(said[0]["error"]["code"], -32600);
    }

    #[test]
    fn a_last_line_without_its_newline_is_read() {
        assert_eq!(through(ping(1).as_bytes(), 7).0.len(), 1);
        assert_eq!(through(&ping(1).as_bytes()[..20], 7).1[0]["error"]["code"], -32700);
    }

    #[test]
    fn requests_in_flight_are_bounded_and_each_has_its_own_id() {
        let all: Vec<String> = (0..300).map(ping).collect();
        let (messages, said) = through(all.join("\n").as_bytes(), 1 << 16);
        assert_eq!((messages.len(), said.len()), (IN_FLIGHT_MAX, 300 - IN_FLIGHT_MAX));
        assert!(said.iter().all(|answer| answer["error"]["code"] == -32000));
        let twice = format!("{}\n{}\n", ping(1), ping(1));
        let (messages, said) = through(twice.as_bytes(), 64);
        assert_eq!((messages.len(), said.len()), (1, 1));
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let sent = format!("{HELLO}\n{}\n{cancel}\n{}\n", ping(1), ping(1));
        let (messages, said) = through(sent.as_bytes(), 64);
        assert_eq!((messages.len(), said.len()), (4, 0), "a cancelled request gives its id back");
    }

    #[test]
    fn before_a_conversation_begins_only_requests_come_through() {
        let about = |version: &str| {
            json!({"_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }})
        };
        let ask = |method: &str, params: &Json| {
            json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params}).to_string()
        };
        // Each is followed by a notification and a response to no request.
        let after = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":7,"result":{}}"#;
        for (first, n_through) in [
            (HELLO.to_owned(), 3),
            (ask("tools/list", &about("2026-07-28")), 3),
            (ask("tools/list", &about("9999-01-01")), 1),
            (ask("tools/list", &json!({})), 1),
            (ask("server/discover", &about("2026-07-28")), 1),
            (ping(1), 1),
        ] {
            let (messages, said) = through(format!("{first}\n{after}\n").as_bytes(), 64);
            assert_eq!((messages.len(), said.len()), (n_through, 0), "{first}");
        }
    }

    #[test]
    fn nobody_waits_for_an_answer_to_an_id_that_has_none() {
        for id in ["1.5", "null", "{}", "18446744073709551615"] {
            let odd = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let (messages, said) = through(odd.as_bytes(), 64);
            assert_eq!((messages.len(), said.len()), (0, 1), "{id}");
            assert_eq!(said[0]["error"]["code"], -32600, "{id}");
            // MCP's schema has errors without an id, and none with null.
            assert!(said[0].get("id").is_none(), "{}", said[0]);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_around_it_a_request_comes_through(
            garbage in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>().prop_filter("one line", |b| *b != b'\n'), 0..80),
                    "[\\[\\]{}\":,a-z0-9 ]{0,40}".prop_map(String::into_bytes),
                    Just(br#"{"jsonrpc":"2.0","method":"notifications/x","params":[]}"#.to_vec()),
                    Just(br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.to_vec()),
                ],
                0..12,
            ),
            piece in 1usize..200,
        ) {
            let mut sent = Vec::new();
            for (n, line) in garbage.iter().enumerate() {
                sent.extend_from_slice(line);
                sent.extend(format!("\n{}\n", ping(u32::try_from(n).unwrap())).as_bytes());
            }
            let (messages, said) = through(&sent, piece);
            let requests = messages.iter().filter(|m| matches!(m, JsonRpcMessage::Request(_))).count();
            prop_assert_eq!(requests, garbage.len());
            prop_assert!(said.len() <= garbage.len());
            prop_assert!(said.iter().all(|answer| answer["error"]["code"].is_i64()));
        }
    }
}
