//! An HTTP/2 client, by prior knowledge or by negotiation under TLS, and certificates to negotiate with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::HeaderMap;
use http::Request;
use http_body_util::BodyExt;
use http_body_util::StreamBody;
use http_body_util::combinators::BoxBody;
use hyper::body::Frame;
use hyper::client::conn::http2;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::wire::PATIENCE;

/// A body of any kind.
pub type Body = BoxBody<Bytes, std::convert::Infallible>;

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// What came before the end, or before the stream was reset.
    pub body: Vec<u8>,
    /// Whether the stream was reset instead of ended.
    pub is_cut: bool,
}

/// One HTTP/2 connection.
pub struct H2Client {
    sender: SendRequest<Body>,
}

impl H2Client {
    /// Connects without TLS, with prior knowledge.
    pub async fn plain(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.expect("it listens")).await
    }

    /// Speaks HTTP/2 on a connection that is made.
    pub async fn over<S>(stream: S) -> Self
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        tokio::spawn(connection);
        Self { sender }
    }

    /// Sends a request and reads its whole answer.
    pub async fn send(&mut self, request: Request<Body>) -> Answer {
        let answer = timeout(PATIENCE, self.sender.send_request(request)).await.expect("in time");
        let (head, mut body) = answer.expect("an answer").into_parts();
        let (mut bytes, mut is_cut) = (Vec::new(), false);
        while let Some(frame) = timeout(PATIENCE, body.frame()).await.expect("in time") {
            match frame {
                Ok(frame) => bytes.extend(frame.into_data().unwrap_or_default()),
                Err(_) => {
                    is_cut = true;
                    break;
                }
            }
        }
        Answer { status: head.status.as_u16(), headers: head.headers, body: bytes, is_cut }
    }

    /// Sends a request and reads the first piece of its answer; who drops the rest resets the stream.
    pub async fn begin(&mut self, request: Request<Body>) -> hyper::body::Incoming {
        let answer = timeout(PATIENCE, self.sender.send_request(request)).await.expect("in time");
        let mut body = answer.expect("an answer").into_body();
        timeout(PATIENCE, body.frame()).await.expect("in time").expect("a frame").expect("no fault");
        body
    }

    /// Sends a request and forgets it once a condition holds: the stream is reset.
    pub async fn abandon(&mut self, request: Request<Body>, until: impl Fn() -> bool) {
        let mut answer = Box::pin(self.sender.send_request(request));
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !until() {
            assert!(tokio::time::Instant::now() < deadline, "the condition never held");
            let step = timeout(Duration::from_millis(5), answer.as_mut()).await;
            assert!(step.is_err(), "answered before it was abandoned");
        }
    }
}

/// A POST of JSON; each piece is a DATA frame of its own. `declares` says the length beforehand.
pub fn post(path: &str, pieces: Vec<Vec<u8>>, declares: bool) -> Request<Body> {
    let length: usize = pieces.iter().map(Vec::len).sum();
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(Bytes::from(piece))));
    let body = BodyExt::boxed(StreamBody::new(stream::iter(frames.collect::<Vec<_>>())));
    let request =
        Request::post(format!("http://gateway.test{path}")).header("content-type", "application/json");
    let request = if declares { request.header("content-length", length) } else { request };
    request.body(body).expect("a request")
}

/// A self-signed certificate for `localhost` and `127.0.0.1`, as its own authority.
pub struct Certificate {
    pub cert_pem: String,
    pub key_pem: String,
    pub der: CertificateDer<'static>,
}

impl Certificate {
    /// Makes a fresh one.
    pub fn make() -> Self {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        Self {
            cert_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
            der: made.cert.der().clone(),
        }
    }

    /// Makes one that ends at a Unix second.
    pub fn ending(ends: i64) -> Self {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut wanted = rcgen::CertificateParams::new(names).expect("names");
        let at = rcgen::date_time_ymd(1970, 1, 1);
        wanted.not_after = at + std::time::Duration::from_secs(ends.unsigned_abs());
        let key = rcgen::KeyPair::generate().expect("a key");
        let made = wanted.self_signed(&key).expect("a certificate");
        Self { cert_pem: made.pem(), key_pem: key.serialize_pem(), der: made.der().clone() }
    }
}

/// Connects with TLS, trusting one certificate and offering one protocol.
pub async fn tls(
    address: SocketAddr,
    trusted: &Certificate,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.expect("protocol versions").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let socket = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}
