//! One HTTP connection to one receiver, opened anew whenever it is not there.
//!
//! HTTP/1.1 (RFC 9112), no redirections, no cookies, answers bounded in time and size.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::HeaderValue;
use http::Method;
use http::Request;
use http::StatusCode;
use http::header;
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::Limited;
use hyper::client::conn::http1;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::address;
use super::config::Peer;
use super::sink::Trouble;
use crate::clock::Clock;
use crate::tls::client::TlsClient;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How long a connection may take to be opened and secured.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(10);

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;
/// Who asks, and who carries it.
type Connection = (SendRequest<Full<Bytes>>, Driver);

/// A receiver and, between requests, the connection to it.
pub(super) struct HttpClient {
    peer: Peer,
    tls: Option<TlsClient>,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    open: Option<Connection>,
}

/// What a receiver said.
pub(super) struct HttpAnswer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// How long it asks to be left alone.
    pub(super) retry_after: Option<Duration>,
}

/// A stream of either kind.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl HttpClient {
    pub(super) fn new(peer: Peer, tls: Option<TlsClient>, timeout: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { peer, tls, timeout, clock, open: None }
    }

    /// Posts a body.
    ///
    /// # Errors
    /// The receiver cannot be reached, or does not answer as HTTP in time.
    pub(super) async fn post(
        &mut self,
        path: &str,
        headers: &[(&'static str, HeaderValue)],
        body: Vec<u8>,
    ) -> Result<HttpAnswer, Trouble> {
        let request = self.request(path, headers, body)?;
        let (mut sender, mut driver) = match self.standing().await {
            Some(standing) => standing,
            None => open(&self.peer, self.tls.as_ref()).await?,
        };
        let clock = Arc::clone(&self.clock);
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|_| Trouble::Broken)?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|_| Trouble::Broken)?;
            let retry_after = retry_after(&head.headers, clock.now());
            Ok(HttpAnswer { status: head.status, body: body.to_bytes(), retry_after })
        };
        let exchange = async move {
            tokio::pin!(exchange);
            tokio::select! {
                biased;
                answer = &mut exchange => return (answer, Some(driver)),
                _ = &mut driver => {}
            }
            // The connection may end with the last byte of the answer. A request that it never wrote is given back
            // only when it is gone.
            drop(driver);
            (exchange.await, None)
        };
        let (answer, driver) = timeout(self.timeout, exchange).await.map_err(|_| Trouble::Slow)?;
        self.open = driver.filter(|_| answer.is_ok()).map(|driver| (sender, driver));
        answer
    }

    /// Returns the connection of the request before, unless the receiver has closed it since: nobody has looked.
    async fn standing(&mut self) -> Option<Connection> {
        let (sender, mut driver) = self.open.take()?;
        let has_ended = poll_fn(|context| Poll::Ready(driver.as_mut().poll(context).is_ready())).await;
        (!has_ended && !sender.is_closed()).then_some((sender, driver))
    }

    fn request(
        &self,
        path: &str,
        headers: &[(&'static str, HeaderValue)],
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, Trouble> {
        let mut request =
            Request::builder().method(Method::POST).uri(path).header(header::HOST, host(&self.peer));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.body(Full::new(body.into())).map_err(|_| Trouble::Unsendable)
    }
}

/// Returns how long a receiver asks to be left alone: in seconds, or until a moment by its own clock, which `Date` tells
/// (RFC 9110 §10.2.3), or by ours where it tells none.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|it: &HeaderValue| it.to_str().ok());
    let asked = text(header::RETRY_AFTER)?;
    if let Ok(seconds) = asked.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = |text| rfc2822::parse(text).ok().map(|at| at.timestamp());
    let its_now = text(header::DATE).and_then(moment).unwrap_or(now);
    Duration::try_from(moment(asked)?.duration_since(its_now)).ok()
}

async fn open(peer: &Peer, tls: Option<&TlsClient>) -> Result<Connection, Trouble> {
    match connect(peer, tls).await? {
        Stream::Plain(stream) => shake(stream).await,
        Stream::Tls(stream) => shake(*stream).await,
    }
}

async fn shake<S>(stream: S) -> Result<Connection, Trouble>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|_| Trouble::Broken)?;
    Ok((sender, Box::pin(connection)))
}

/// Opens a connection to a peer, secured where the peer wants it.
///
/// # Errors
/// It cannot be reached in time, or is not whom its certificate should vouch for.
pub(super) async fn connect(peer: &Peer, tls: Option<&TlsClient>) -> Result<Stream, Trouble> {
    let opened = timeout(CONNECT_MAX, async {
        let stream = connect_tcp(peer).await?;
        match tls {
            Some(tls) => {
                let secured = tls.connect(&peer.host, stream).await.map_err(Trouble::unreachable)?;
                Ok(Stream::Tls(Box::new(secured)))
            }
            None => Ok(Stream::Plain(stream)),
        }
    });
    opened.await.map_err(|_| Trouble::Slow)?
}

/// Opens a connection to a peer that is not secured yet.
///
/// # Errors
/// It cannot be reached, or must not be.
pub(super) async fn connect_tcp(peer: &Peer) -> Result<TcpStream, Trouble> {
    let mut last = ErrorKind::NotFound;
    for address in address::resolve(peer).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(Trouble::unreachable)?;
                return Ok(stream);
            }
            Err(error) => last = error.kind(),
        }
    }
    Err(Trouble::Unreachable(last))
}

fn host(peer: &Peer) -> String {
    let host = if peer.host.contains(':') { format!("[{}]", peer.host) } else { peer.host.clone() };
    let default = if peer.tls { 443 } else { 80 };
    if peer.port == default { host } else { format!("{host}:{}", peer.port) }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::AsyncReadExt;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::clock::SystemClock;

    /// No receiver of these tests is waited for so long.
    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn a_receiver_asks_for_seconds_or_for_a_moment_by_its_own_clock_or_by_ours() {
        let now = "Sun, 06 Nov 1994 08:49:37 GMT";
        let ours = "1994-11-06T08:50:00Z".parse().unwrap();
        let cases = [
            (Some("0"), None, Some(0)),
            (Some("120"), Some(now), Some(120)),
            (Some("Sun, 06 Nov 1994 08:51:07 GMT"), Some(now), Some(90)),
            (Some("Sun, 06 Nov 1994 08:49:00 GMT"), Some(now), None),
            (Some("Sun, 06 Nov 1994 08:51:07 GMT"), None, Some(67)),
            (Some("Sun, 06 Nov 1994 08:51:07 GMT"), Some("today"), Some(67)),
            (Some("Sun, 06 Nov 1994 08:49:59 GMT"), None, None),
            (Some("soon"), Some(now), None),
            (Some("-1"), Some(now), None),
            (None, Some(now), None),
        ];
        for (asked, date, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::RETRY_AFTER, asked), (header::DATE, date)] {
                headers.extend(value.map(|value| (name, HeaderValue::from_static(value))));
            }
            assert_eq!(retry_after(&headers, ours), expected.map(Duration::from_secs), "{asked:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_while_it_was_idle_is_opened_anew() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (close, mut is_to_close) = tokio::sync::mpsc::channel::<()>(1);
        let (closed, mut is_closed) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut read = Vec::new();
                while !read.ends_with(b"{}") {
                    assert!(stream.read_buf(&mut read).await.unwrap() > 0);
                }
                stream.write_all(b"HTTP/1.1 204 X\r\n\r\n").await.unwrap();
                is_to_close.recv().await.unwrap();
                drop(stream);
                closed.send(()).await.unwrap();
            }
        });
        let host = "127.0.0.1".to_owned();
        let peer = Peer { host, port, tls: false, ca: None, allow_private: true };
        let mut client = HttpClient::new(peer, None, TIMEOUT, Arc::new(SystemClock));
        let begun = Instant::now();
        for _ in 0..3 {
            let answer = client.post("/", &[], b"{}".to_vec()).await.unwrap();
            assert_eq!(answer.status, StatusCode::NO_CONTENT);
            close.send(()).await.unwrap();
            is_closed.recv().await.unwrap();
            // The reactor hears of it when it is asked.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(begun.elapsed() < TIMEOUT, "nobody waited for what was gone");
    }

    #[tokio::test]
    async fn a_connection_that_ends_instead_of_an_answer_is_told_at_once() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = [0; 1024];
            for answer in [b"HTTP/1.1 204 X\r\n\r\n".as_slice(), b""] {
                assert!(stream.read(&mut read).await.unwrap() > 0);
                stream.write_all(answer).await.unwrap();
            }
        });
        let host = "127.0.0.1".to_owned();
        let peer = Peer { host, port, tls: false, ca: None, allow_private: true };
        let mut client = HttpClient::new(peer, None, TIMEOUT, Arc::new(SystemClock));
        assert!(client.post("/", &[], b"{}".to_vec()).await.is_ok());
        assert!(matches!(client.post("/", &[], b"{}".to_vec()).await, Err(Trouble::Broken)));
    }
}
