//! Copies bytes between a run's connection and the one made for it, and counts them.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use crate::connection::Stream;
use crate::report::Traffic;

/// Buffer of each direction: as much as one read of a fast loopback connection returns.
const BUFFER_BYTES: usize = 64 << 10;

/// First buffer of each direction; most connections carry little.
const FIRST_BUFFER_BYTES: usize = 8 << 10;

/// Interval at which a connection whose client has ended its way is looked at, and the number of intervals without a byte
/// after which it is closed: five minutes.
const QUIET_INTERVAL: Duration = Duration::from_secs(30);
const QUIET_MAX: u32 = 10;

/// A stream whose first bytes were read already.
pub(crate) struct Rewound<S> {
    first: Vec<u8>,
    stream: S,
}

impl<S> Rewound<S> {
    /// Returns these bytes before those of the stream.
    pub(crate) fn new(first: Vec<u8>, stream: S) -> Self {
        Self { first, stream }
    }
}

impl<S: Stream> Stream for Rewound<S> {
    fn reset_on_close(&self) {
        self.stream.reset_on_close();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let n = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..n]);
        self.first.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A stream in whose input texts are replaced by others of the same length.
pub(crate) fn cleaned<S: AsyncRead + AsyncWrite>(
    stream: S,
    replaced: Vec<(Vec<u8>, Vec<u8>)>,
) -> impl AsyncRead + AsyncWrite + Unpin {
    let (input, output) = tokio::io::split(stream);
    tokio::io::join(Cleaned { input, replaced }, output)
}

/// Replaces within what arrives at once: nothing is held back from a client that waits for it.
struct Cleaned<R> {
    input: R,
    replaced: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Cleaned<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        for (from, to) in &self.replaced {
            let mut rest = &mut buffer.filled_mut()[before..];
            while let Some(at) = memchr::memmem::find(rest, from) {
                rest = &mut rest[at..];
                rest[..to.len()].copy_from_slice(to);
                rest = &mut rest[to.len()..];
            }
        }
        polled
    }
}

/// The connection to the host, which counts the bytes of the run.
pub(crate) struct Counted<S> {
    stream: S,
    traffic: Arc<Traffic>,
}

impl<S> Counted<S> {
    pub(crate) fn new(stream: S, traffic: Arc<Traffic>) -> Self {
        Self { stream, traffic }
    }
}

impl<S: Stream> Stream for Counted<S> {}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let n = buffer.filled().len() - before;
        match self.traffic.received(n) {
            Ok(()) => polled,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        match polled {
            Poll::Ready(Ok(n)) => Poll::Ready(self.traffic.sent(n).map(|()| n)),
            polled => polled,
        }
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Copies both ways until both have ended. The end of one way is passed on and does not end the other.
pub(crate) async fn both_ways<C, S>(client: C, server: S)
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut client_read, mut client_write) = tokio::io::split(client);
    let (mut server_read, mut server_write) = tokio::io::split(server);
    let (client_ended, moved) = (Cell::new(false), Cell::new(0));
    let up = async {
        let copied = one_way(&mut client_read, &mut server_write, &moved).await;
        client_ended.set(true);
        copied
    };
    let down = one_way(&mut server_read, &mut client_write, &moved);
    // An error on one way means that a peer is gone: the other way ends with it.
    let both = async { tokio::try_join!(up, down) };
    tokio::pin!(both);
    let (mut last, mut quiet) = (u64::MAX, 0);
    loop {
        match tokio::time::timeout(QUIET_INTERVAL, &mut both).await {
            Ok(_) => return,
            // A client that closed its socket looks like one that only ended its own way, until a byte is sent to it. A
            // server that sends none, and does not close, would keep the connection for ever.
            Err(_) if client_ended.get() => {
                let now = moved.get();
                quiet = if now == last { quiet + 1 } else { 0 };
                last = now;
                if quiet >= QUIET_MAX {
                    return;
                }
            }
            Err(_) => {}
        }
    }
}

/// Copies until the end of input, then passes the end on.
async fn one_way<R, W>(from: &mut R, to: &mut W, moved: &Cell<u64>) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0u8; FIRST_BUFFER_BYTES];
    loop {
        let n = from.read(&mut buffer).await?;
        if n == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..n]).await?;
        moved.set(moved.get() + n as u64);
        if n == buffer.len() && n < BUFFER_BYTES {
            buffer.resize(BUFFER_BYTES, 0);
        }
    }
}
