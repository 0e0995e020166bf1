//! What stands before the first request of a connection: caps and the header deadline.
//!
//! Pingora times a single read, not a whole request head (one byte every few seconds holds a
//! connection for ever), and it counts no connections. So each accepted stream passes here: over the
//! cap it gets a bare 503 and is closed; below it, a request head that is not complete within the
//! deadline ends the connection. On HTTP/2 only the preface is timed, later frames are Pingora's.
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
use pingora::protocols::ALPN;
use pingora::protocols::GetProxyDigest;
use pingora::protocols::GetSocketDigest;
use pingora::protocols::GetTimingDigest;
use pingora::protocols::Peek;
use pingora::protocols::Shutdown;
use pingora::protocols::SocketDigest;
use pingora::protocols::Ssl;
use pingora::protocols::Stream;
use pingora::protocols::TimingDigest;
use pingora::protocols::UniqueID;
use pingora::protocols::UniqueIDType;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::tls::TlsRef;
use pingora::server::ShutdownWatch;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::io::ReadBuf;
use tokio::time::Sleep;

const HEAD_END: &[u8; 4] = b"\r\n\r\n";
const H2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a fresh connection may say nothing; Pingora's own limit for a first read.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const INTERIM: &[u8] = b"HTTP/1.1 100";
const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// How many connections may be open, and how long a request head may take.
#[derive(Clone, Copy, Debug)]
pub struct GuardConfig {
    /// Open connections in all.
    pub connections_max: usize,
    /// Open connections from one address.
    pub connections_per_address_max: usize,
    /// From the first byte of a request head to its last.
    pub head_deadline: Duration,
}

/// An application behind connection caps and a header deadline.
pub struct Guard<A> {
    inner: Arc<A>,
    config: GuardConfig,
    open: Arc<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    total: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
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
    state: HeadState,
    protocol: Protocol,
    _place: Place,
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
    /// A head is under way; how many bytes of its end were just seen.
    Head { end_seen: usize, timer: Pin<Box<Sleep>> },
    /// The head is complete; a body may follow.
    Body,
    /// HTTP/2 frames: their deadlines are not ours.
    Frames,
}

impl<A> Guard<A> {
    /// Puts `inner` behind the guard.
    pub fn new(inner: A, config: GuardConfig) -> Self {
        Self { inner: Arc::new(inner), config, open: Arc::default() }
    }

    fn admit(&self, address: Option<IpAddr>) -> Option<Place> {
        let total = self.open.total.fetch_add(1, Ordering::Relaxed) + 1;
        let mut by_address = self.open.by_address.lock();
        let mine = address.map_or(0, |address| {
            let count = by_address.entry(address).or_insert(0);
            *count += 1;
            *count
        });
        drop(by_address);
        let place = Place { open: Arc::clone(&self.open), address };
        let fits = total <= self.config.connections_max && mine <= self.config.connections_per_address_max;
        fits.then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.total.fetch_sub(1, Ordering::Relaxed);
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
            // Losing this answer costs the refused client an explanation, nothing else.
            let _ = stream.write_all(OVERLOADED).await;
            let _ = stream.flush().await;
            return None;
        };
        let deadline = self.config.head_deadline;
        let mut timed = TimedStream {
            inner: stream,
            deadline,
            state: HeadState::Between,
            protocol: Protocol::Unknown,
            _place: place,
        };
        if timed.inner.selected_alpn_proto() == Some(ALPN::H2) {
            timed.expect_preface();
        }
        self.inner.process_new(Box::new(timed), shutdown).await
    }

    async fn cleanup(&self) {
        self.inner.cleanup().await;
    }
}

impl TimedStream {
    /// Times the preface of HTTP/2 from now on.
    fn expect_preface(&mut self) {
        self.protocol = Protocol::Http2;
        let timer = Box::pin(tokio::time::sleep(self.deadline));
        self.state = HeadState::Head { end_seen: 0, timer };
    }

    fn note_read(&mut self, bytes: &[u8]) {
        if matches!(self.state, HeadState::Between) && !bytes.is_empty() {
            let timer = Box::pin(tokio::time::sleep(self.deadline));
            self.state = HeadState::Head { end_seen: 0, timer };
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
            self.state = HeadState::Between;
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.inner).poll_read(ctx, buf) {
            Poll::Ready(result) => {
                result?;
                self.note_read(&buf.filled()[before..]);
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                if let HeadState::Head { timer, .. } = &mut self.state {
                    ready!(timer.as_mut().poll(ctx));
                    let slow = io::Error::new(io::ErrorKind::TimedOut, "request head took too long");
                    return Poll::Ready(Err(slow));
                }
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
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
        if let Some(first) = bufs.first() {
            self.note_written(first);
        }
        Pin::new(&mut self.inner).poll_write_vectored(ctx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for TimedStream {
    async fn shutdown(&mut self) {
        Shutdown::shutdown(self.inner.as_mut()).await;
    }
}

impl UniqueID for TimedStream {
    fn id(&self) -> UniqueIDType {
        self.inner.id()
    }
}

impl Ssl for TimedStream {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.inner.get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner.selected_alpn_proto()
    }
}

impl GetTimingDigest for TimedStream {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner.get_timing_digest()
    }
}

impl GetProxyDigest for TimedStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner.get_proxy_digest()
    }

    fn set_proxy_digest(&mut self, digest: ProxyDigest) {
        self.inner.set_proxy_digest(digest);
    }
}

impl GetSocketDigest for TimedStream {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner.get_socket_digest()
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        self.inner.set_socket_digest(digest);
    }
}

#[async_trait]
impl Peek for TimedStream {
    /// Answers what Pingora asks before the first request: whether this is HTTP/2 without TLS.
    ///
    /// A connection that was used before speaks what it spoke.
    async fn try_peek(&mut self, buf: &mut [u8]) -> io::Result<bool> {
        buf.fill(0);
        if self.protocol == Protocol::Unknown {
            let mut first = [0; 3];
            let begun = tokio::time::timeout(SILENCE_MAX, self.inner.try_peek(&mut first[..1])).await;
            begun.map_err(|_| io::ErrorKind::TimedOut)??;
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
