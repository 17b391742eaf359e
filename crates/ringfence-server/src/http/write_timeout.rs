//! Stream with a write timeout: a peer that stops reading for a while is disconnected, so that no client can leave
//! responses in our memory. Reports whether written bytes are not flushed yet.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Is notified whether written bytes are not flushed yet.
pub(super) trait Unflushed {
    fn owes(&self, bytes: bool);
}

/// A stream and the time limit of its writes.
#[derive(Debug)]
pub(super) struct WriteTimeout<T, D> {
    inner: T,
    unflushed: Arc<D>,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T, D: Unflushed> WriteTimeout<T, D> {
    pub(super) fn new(inner: T, unflushed: Arc<D>, limit: Duration) -> Self {
        Self { inner, unflushed, limit, waiting: None }
    }

    fn judge<O>(
        &mut self,
        poll: Poll<io::Result<O>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<O>> {
        if poll.is_ready() {
            self.waiting = None;
            return poll;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin, D> AsyncRead for WriteTimeout<T, D> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin, D: Unflushed> AsyncWrite for WriteTimeout<T, D> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.unflushed.owes(true);
        let poll = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(poll, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unflushed.owes(true);
        let poll = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        self.judge(poll, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(context);
        if poll.is_ready() {
            self.unflushed.owes(false);
        }
        self.judge(poll, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(poll, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::AsyncWriteExt as _;

    #[derive(Default)]
    struct Owed(AtomicBool);

    impl Unflushed for Owed {
        fn owes(&self, bytes: bool) {
            self.0.store(bytes, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_takes_ends() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let unflushed = Arc::new(Owed::default());
        let mut ours = WriteTimeout::new(ours, Arc::clone(&unflushed), Duration::from_secs(30));
        ours.write_all(&[0; 16]).await.unwrap();
        ours.flush().await.unwrap();
        assert!(!unflushed.0.load(Ordering::Relaxed));
        let began = tokio::time::Instant::now();
        let error = ours.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 30);
        assert!(unflushed.0.load(Ordering::Relaxed));
    }
}
