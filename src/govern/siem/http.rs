//! One HTTP connection to one receiver, opened anew whenever it is not there.
//!
//! HTTP/1.1 (RFC 9112), no redirections, no cookies, answers bounded in time and size.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
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
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::address;
use super::config::Peer;
use super::sink::Trouble;
use crate::tls::client::TlsClient;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How long a connection may take to be opened and secured.
const CONNECT_MAX: Duration = Duration::from_secs(10);

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// A receiver and, between requests, the connection to it.
pub(super) struct HttpClient {
    peer: Peer,
    tls: Option<TlsClient>,
    timeout: Duration,
    open: Option<(SendRequest<Full<Bytes>>, Driver)>,
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
    pub(super) fn new(peer: Peer, tls: Option<TlsClient>, timeout: Duration) -> Self {
        Self { peer, tls, timeout, open: None }
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
        let (mut sender, mut driver) = match self.open.take() {
            Some((sender, driver)) if !sender.is_closed() => (sender, driver),
            _ => open(&self.peer, self.tls.as_ref()).await?,
        };
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|_| Trouble::Broken)?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|_| Trouble::Broken)?;
            let retry_after =
                head.headers.get(header::RETRY_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
            Ok(HttpAnswer {
                status: head.status,
                body: body.to_bytes(),
                retry_after: retry_after.map(Duration::from_secs),
            })
        };
        let exchange = async {
            tokio::pin!(exchange);
            tokio::select! {
                biased;
                answer = &mut exchange => (answer, true),
                // The connection may end with the last byte of the answer.
                _ = &mut driver => (exchange.await, false),
            }
        };
        let (answer, stands) = timeout(self.timeout, exchange).await.map_err(|_| Trouble::Slow)?;
        if stands && answer.is_ok() {
            self.open = Some((sender, driver));
        }
        answer
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

async fn open(peer: &Peer, tls: Option<&TlsClient>) -> Result<(SendRequest<Full<Bytes>>, Driver), Trouble> {
    match connect(peer, tls).await? {
        Stream::Plain(stream) => shake(stream).await,
        Stream::Tls(stream) => shake(*stream).await,
    }
}

async fn shake<S>(stream: S) -> Result<(SendRequest<Full<Bytes>>, Driver), Trouble>
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
            Some(tls) => Ok(Stream::Tls(Box::new(tls.connect(&peer.host, stream).await?))),
            None => Ok(Stream::Plain(stream)),
        }
    });
    opened.await.map_err(|_| Trouble::Slow)?.map_err(|error: io::Error| Trouble::Unreachable(error.kind()))
}

async fn connect_tcp(peer: &Peer) -> io::Result<TcpStream> {
    let mut last = None;
    for address in address::resolve(peer).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn host(peer: &Peer) -> String {
    let host = if peer.host.contains(':') { format!("[{}]", peer.host) } else { peer.host.clone() };
    let default = if peer.tls { 443 } else { 80 };
    if peer.port == default { host } else { format!("{host}:{}", peer.port) }
}
