//! A connection to a provider on which a request's head waits for its body: one packet and one wake-up instead of two.
//!
//! Pingora flushes a head as soon as it is written. Here the first flush of a request is put off: the head leaves with
//! the first bytes of the body, or when an answer is waited for. Nothing else of the connection changes.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::task::ready;

use async_trait::async_trait;
use pingora::protocols::Peek;
use pingora::protocols::Stream;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;

use super::wrapped::answers_as_inner;

/// Room for the head of a request.
const HEAD_BYTES_USUAL: usize = 1024;

/// A connection whose requests leave whole.
pub(super) struct WholeWrite {
    inner: Stream,
    /// A head that has not left, or what is left of it.
    head: Vec<u8>,
    turn: Turn,
}

/// Whose turn it is on the connection.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    /// The next bytes that are written begin a request.
    Request,
    /// A head is written; its flush is put off.
    Head,
    /// Bytes leave as they are written.
    Open,
}

impl WholeWrite {
    /// Wraps a fresh connection, or one that was wrapped before.
    pub(super) fn around(stream: Stream) -> Stream {
        if stream.as_any().is::<Self>() {
            return stream;
        }
        Box::new(Self { inner: stream, head: Vec::with_capacity(HEAD_BYTES_USUAL), turn: Turn::Request })
    }

    /// Writes the head that waits, and `next` behind it as far as it goes; returns how much of `next` went.
    fn poll_head(&mut self, ctx: &mut Context<'_>, next: &[u8]) -> Poll<io::Result<usize>> {
        self.turn = Turn::Open;
        while !self.head.is_empty() {
            let both = [IoSlice::new(&self.head), IoSlice::new(next)];
            let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(ctx, &both))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(self.head.len());
            self.head.drain(..of_head);
            if written > of_head {
                return Poll::Ready(Ok(written - of_head));
            }
        }
        Poll::Ready(Ok(0))
    }
}

impl std::fmt::Debug for WholeWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WholeWrite").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl AsyncRead for WholeWrite {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.head.is_empty() {
            ready!(self.poll_head(ctx, &[]))?;
            ready!(Pin::new(&mut self.inner).poll_flush(ctx))?;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(ctx, buf))?;
        if buf.filled().len() > before {
            self.turn = Turn::Request;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WholeWrite {
    fn poll_write(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.turn == Turn::Request {
            self.head.extend_from_slice(buf);
            self.turn = Turn::Head;
            return Poll::Ready(Ok(buf.len()));
        }
        match ready!(self.poll_head(ctx, buf))? {
            0 => Pin::new(&mut self.inner).poll_write(ctx, buf),
            written => Poll::Ready(Ok(written)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.turn == Turn::Head {
            self.turn = Turn::Open;
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_head(ctx, &[]))?;
        Pin::new(&mut self.inner).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(ctx)
    }
}

answers_as_inner!(WholeWrite);

#[async_trait]
impl Peek for WholeWrite {
    async fn try_peek(&mut self, buf: &mut [u8]) -> io::Result<bool> {
        self.inner.try_peek(buf).await
    }
}
