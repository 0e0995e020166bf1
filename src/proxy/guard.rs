//! What stands before the first request of a connection: caps and the header deadline.
//!
//! Pingora times a single read, not a whole request head (one byte every few seconds holds a
//! connection for ever), and it counts no connections. So each accepted stream passes here: over the
//! cap it gets a bare 503 and is closed; below it, a fresh connection that says nothing within the deadline is
//! closed, and a request head that is not complete within it gets a bare 408 and ends the connection. On HTTP/2
//! only the preface is timed, and ends without an answer; later frames are Pingora's.
//!
//! Where a plane speaks TLS, its handshake is made here, not by Pingora's listener: that counts nobody before the
//! handshake, and waits a minute for one. A connection counts from its first packet on, and the deadline is that of
//! its handshake, too, however often something is said. Over the cap it is closed without an answer, which would take a
//! handshake.
//!
//! And what ends it when the process does: while it drains, a connection that says nothing between two requests is
//! closed after [`LINGER`], so that a request that was on its way is still answered; when its time is up, whatever
//! is left fails, and so is recorded.
//!
//! HTTP/2 without TLS is told by the first three bytes: no method that is served begins with `PRI`.
//! (Pingora itself waits for 24 bytes, and for ever.)

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;
use std::task::ready;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::apps::ServerApp;
use pingora::listeners::tls::Acceptor;
use pingora::listeners::tls::TlsSettings;
use pingora::protocols::ALPN;
use pingora::protocols::Peek;
use pingora::protocols::Stream;
use pingora::protocols::l4::stream::Stream as PlainStream;
use pingora::server::ShutdownWatch;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::io::ReadBuf;
use tokio::time::Sleep;

use super::bare::Bare;
use super::bare::BareAnswers;
use super::wrapped::answers_as_inner;
use crate::access::place::network;
use crate::telemetry::lifecycle::Lifecycle;
use crate::telemetry::lifecycle::Reached;
use crate::telemetry::lifecycle::Stage;

const HEAD_END: &[u8; 4] = b"\r\n\r\n";
const H2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a connection without a request is kept while the process drains.
const LINGER: Duration = Duration::from_secs(1);
const INTERIM: &[u8] = b"HTTP/1.1 100";
const SWITCH: &[u8] = b"HTTP/1.1 101";
/// How many connections may be open, and how long a request head may take.
#[derive(Clone, Copy, Debug)]
pub struct GuardConfig {
    /// Open connections in all.
    pub connections_max: usize,
    /// Open connections from one address.
    pub connections_per_address_max: usize,
    /// From the first byte of a request head to its last, for the first byte of a fresh connection, and for a handshake.
    pub head_deadline: Duration,
}

/// An application behind connection caps and a header deadline.
pub struct Guard<A> {
    inner: Arc<A>,
    config: GuardConfig,
    acceptor: Option<Acceptor>,
    open: Arc<OpenConnections>,
}

struct OpenConnections {
    total: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    lifecycle: Arc<Lifecycle>,
    answers: BareAnswers,
}

/// One counted connection; uncounted when dropped.
struct Place {
    open: Arc<OpenConnections>,
    address: Option<IpAddr>,
}

/// A stream whose request heads are timed.
struct TimedStream {
    inner: Stream,
    deadline: Duration,
    /// How long a fresh connection may still say nothing; `None`: it has said something.
    silence: Option<Pin<Box<Sleep>>>,
    state: HeadState,
    protocol: Protocol,
    ending: Ending,
    place: Place,
}

/// Whether the process, and with it the connection, is about to end.
enum Ending {
    /// It is not; resolves when it is.
    Far(Reached),
    /// Requests are still answered; resolves when time is up. Where none is under way, the wait for one.
    Near { cut: Reached, silence: Option<Pin<Box<Sleep>>> },
    /// Time is up.
    Now,
}

impl std::fmt::Debug for TimedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimedStream").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// What the connection speaks.
#[derive(Clone, Copy, PartialEq)]
enum Protocol {
    Unknown,
    Http1,
    Http2,
}

enum HeadState {
    /// No byte of the next head has come yet.
    Between,
    /// A head is under way; how many bytes of its end were just seen, and whether nothing but a request was read for when
    /// it began: else it came behind one that is not answered yet.
    Head { end_seen: usize, is_awaited: bool, timer: Pin<Box<Sleep>> },
    /// The head took too long: the connection is over.
    Late,
    /// The head is complete; a body may follow.
    Body,
    /// Frames of HTTP/2, or of a WebSocket: their deadlines are not ours.
    Frames,
}

impl<A> Guard<A> {
    /// Puts `inner` behind the guard, and behind TLS where there are settings for it; its connections count for the
    /// process, and end with it. Whoever is turned away gets one of these answers.
    pub fn new(
        inner: A,
        config: GuardConfig,
        tls: Option<TlsSettings>,
        lifecycle: Arc<Lifecycle>,
        answers: BareAnswers,
    ) -> Self {
        let (total, by_address) = (AtomicUsize::new(0), Mutex::default());
        let open = OpenConnections { total, by_address, lifecycle, answers };
        let acceptor = tls.map(TlsSettings::build);
        Self { inner: Arc::new(inner), config, acceptor, open: Arc::new(open) }
    }

    fn admit(&self, address: Option<IpAddr>) -> Option<Place> {
        let address = address.map(network);
        let total = self.open.total.fetch_add(1, Ordering::Relaxed) + 1;
        let mut by_address = self.open.by_address.lock();
        let mine = address.map_or(0, |address| {
            let count = by_address.entry(address).or_insert(0);
            *count += 1;
            *count
        });
        drop(by_address);
        self.open.lifecycle.opened();
        let place = Place { open: Arc::clone(&self.open), address };
        let fits = total <= self.config.connections_max && mine <= self.config.connections_per_address_max;
        fits.then_some(place)
    }

    /// Makes the handshake of a fresh connection, where there is one to be made: within the deadline, and before the
    /// process ends.
    async fn secured(&self, stream: Stream) -> Option<Stream> {
        let Some(acceptor) = &self.acceptor else { return Some(stream) };
        let stream = stream.into_any().downcast::<PlainStream>().ok()?;
        let made = acceptor.tls_handshake(*stream);
        let ends = linger_past(self.open.lifecycle.reached(Stage::Draining));
        let made = tokio::select! {
            made = tokio::time::timeout(self.config.head_deadline, made) => made.ok()?,
            () = ends => return None,
        };
        match made {
            Ok(stream) => Some(Box::new(stream)),
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
        }
    }
}

/// Resolves a moment after the process begins to drain.
async fn linger_past(drained: Reached) {
    drained.await;
    tokio::time::sleep(LINGER).await;
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.total.fetch_sub(1, Ordering::Relaxed);
        self.open.lifecycle.closed();
        let Some(address) = self.address else { return };
        let mut by_address = self.open.by_address.lock();
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> ServerApp for Guard<A> {
    async fn process_new(self: &Arc<Self>, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        if stream.as_any().is::<TimedStream>() {
            return self.inner.process_new(stream, shutdown).await;
        }
        let digest = stream.get_socket_digest();
        let address =
            digest.and_then(|digest| digest.peer_addr().and_then(|peer| peer.as_inet().map(|a| a.ip())));
        let Some(place) = self.admit(address) else {
            if self.acceptor.is_none() {
                // Losing this answer costs the refused client an explanation, nothing else.
                let _ = stream.write_all(&self.open.answers.write(Bare::Overloaded, address)).await;
                let _ = stream.flush().await;
            }
            return None;
        };
        let stream = self.secured(stream).await?;
        let deadline = self.config.head_deadline;
        let mut timed = TimedStream {
            inner: stream,
            deadline,
            silence: Some(Box::pin(tokio::time::sleep(deadline))),
            state: HeadState::Between,
            protocol: Protocol::Unknown,
            ending: Ending::Far(place.open.lifecycle.reached(Stage::Draining)),
            place,
        };
        if timed.inner.selected_alpn_proto() == Some(ALPN::H2) {
            timed.expect_preface();
        }
        self.inner.process_new(Box::new(timed), shutdown).await
    }

    /// Does nothing: Pingora would close idle connections at once, with the requests that are on their way.
    async fn cleanup(&self) {}
}

impl TimedStream {
    /// Times the preface of HTTP/2 from now on.
    fn expect_preface(&mut self) {
        self.protocol = Protocol::Http2;
        let timer = Box::pin(tokio::time::sleep(self.deadline));
        self.state = HeadState::Head { end_seen: 0, is_awaited: false, timer };
    }

    /// Tells whether a head took too long: nothing is read or written any more.
    fn is_late(&self) -> bool {
        matches!(self.state, HeadState::Late)
    }

    /// Ends the connection over a head that took too long. Its caller is told so, where no other answer is under way.
    fn poll_late(&mut self, ctx: &mut Context<'_>) -> io::Error {
        let state = std::mem::replace(&mut self.state, HeadState::Late);
        if matches!(state, HeadState::Head { is_awaited: true, .. }) {
            let answer = self.place.open.answers.write(Bare::Late, self.place.address);
            // What does not leave at once costs a slow client an explanation, nothing else.
            let _ = Pin::new(&mut self.inner).poll_write(ctx, &answer);
            let _ = Pin::new(&mut self.inner).poll_flush(ctx);
        }
        io::Error::new(io::ErrorKind::TimedOut, "request head took too long")
    }

    /// Resolves when the connection is to end: well, where a request is waited for, else with a fault.
    fn poll_ending(&mut self, waits_for_request: bool, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Ending::Far(drain) = &mut self.ending {
            ready!(drain.as_mut().poll(ctx));
            let cut = self.place.open.lifecycle.reached(Stage::Cutting);
            self.ending = Ending::Near { cut, silence: None };
        }
        if let Ending::Near { cut, silence } = &mut self.ending {
            if cut.as_mut().poll(ctx).is_pending() {
                if !waits_for_request {
                    *silence = None;
                    return Poll::Pending;
                }
                let silence = silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
                return silence.as_mut().poll(ctx).map(Ok);
            }
            self.ending = Ending::Now;
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the process ends")))
    }

    fn note_read(&mut self, bytes: &[u8], is_awaited: bool) {
        if !bytes.is_empty() {
            self.silence = None;
        }
        if matches!(self.state, HeadState::Between) && !bytes.is_empty() {
            let timer = Box::pin(tokio::time::sleep(self.deadline));
            self.state = HeadState::Head { end_seen: 0, is_awaited, timer };
        }
        let HeadState::Head { end_seen, .. } = &mut self.state else { return };
        for byte in bytes {
            *end_seen = match (*byte == HEAD_END[*end_seen], *byte) {
                (true, _) => *end_seen + 1,
                (false, b'\r') => 1,
                (false, _) => 0,
            };
            if *end_seen == HEAD_END.len() {
                self.state = match self.protocol {
                    Protocol::Http2 => HeadState::Frames,
                    Protocol::Unknown | Protocol::Http1 => HeadState::Body,
                };
                return;
            }
        }
    }

    fn note_written(&mut self, bytes: &[u8]) {
        if matches!(self.state, HeadState::Body) && !bytes.starts_with(INTERIM) {
            self.state = match bytes.starts_with(SWITCH) {
                true => HeadState::Frames,
                false => HeadState::Between,
            };
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_late() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        // While an answer is under way, Pingora reads single bytes, to see whether the caller left.
        let is_awaited = buf.remaining() > 1;
        match Pin::new(&mut self.inner).poll_read(ctx, buf) {
            Poll::Ready(result) => {
                result?;
                self.note_read(&buf.filled()[before..], is_awaited);
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                let Self { state, silence, .. } = &mut *self;
                let timer = match state {
                    HeadState::Head { timer, .. } => Some(timer),
                    HeadState::Between | HeadState::Body | HeadState::Frames | HeadState::Late => {
                        silence.as_mut()
                    }
                };
                if timer.is_some_and(|timer| timer.as_mut().poll(ctx).is_ready()) {
                    return Poll::Ready(Err(self.poll_late(ctx)));
                }
                let waits_for_request = matches!(self.state, HeadState::Between) && is_awaited;
                self.poll_ending(waits_for_request, ctx)
            }
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_late() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.note_written(buf);
        Pin::new(&mut self.inner).poll_write(ctx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(ctx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_late() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if let Some(first) = bufs.first() {
            self.note_written(first);
        }
        Pin::new(&mut self.inner).poll_write_vectored(ctx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

answers_as_inner!(TimedStream);

#[async_trait]
impl Peek for TimedStream {
    /// Answers what Pingora asks before the first request: whether this is HTTP/2 without TLS.
    ///
    /// A connection that was used before speaks what it spoke.
    async fn try_peek(&mut self, buf: &mut [u8]) -> io::Result<bool> {
        buf.fill(0);
        if self.protocol == Protocol::Unknown {
            let mut first = [0; 3];
            let ends = linger_past(self.place.open.lifecycle.reached(Stage::Draining));
            tokio::select! {
                begun = tokio::time::timeout(self.deadline, self.inner.try_peek(&mut first[..1])) => {
                    begun.map_err(|_| io::ErrorKind::TimedOut)??;
                }
                () = ends => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
            if first[0] == H2_PREFACE[0] {
                let second = tokio::time::timeout(self.deadline, self.inner.try_peek(&mut first)).await;
                second.map_err(|_| io::ErrorKind::TimedOut)??;
            }
            self.protocol = if H2_PREFACE.starts_with(&first) { Protocol::Http2 } else { Protocol::Http1 };
            if self.protocol == Protocol::Http2 {
                self.expect_preface();
            }
        }
        if self.protocol == Protocol::Http2 {
            buf.iter_mut().zip(H2_PREFACE).for_each(|(place, byte)| *place = *byte);
        }
        Ok(true)
    }
}
