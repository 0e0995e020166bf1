//! A provider that speaks HTTP/2 by prior knowledge, or what is negotiated under TLS: it records requests and answers with
//! frames.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::HeaderMap;
use http::Request;
use http::Response;
use http::Version;
use http_body_util::BodyExt;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::h2::Certificate;

/// A request as it reached the upstream.
#[derive(Clone, Debug)]
pub struct Received {
    pub version: Version,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// What every request is answered with.
#[derive(Clone, Debug)]
pub struct Answer {
    pub content_type: &'static str,
    /// Each piece is a DATA frame of its own.
    pub pieces: Vec<Vec<u8>>,
    /// Sent after the last piece, unless empty.
    pub trailers: HeaderMap,
}

/// A listening HTTP/2 upstream; it stops when it is dropped.
pub struct H2Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    _runtime: Runtime,
}

impl H2Upstream {
    /// Starts an upstream that answers every request the same way.
    pub fn start(answer: Answer) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        runtime.spawn(accept(listener, answer, Arc::clone(&received)));
        Self { address, received, _runtime: runtime }
    }

    /// Starts one under TLS that offers these protocols, the best first, and speaks what its peer speaks.
    pub fn start_under_tls(answer: Answer, certificate: &Certificate, protocols: &[&str]) -> Self {
        let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("protocol versions").with_no_client_auth();
        let mut config = config.with_single_cert(vec![certificate.der.clone()], key).expect("a certificate");
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        runtime.spawn(accept_tls(listener, acceptor, answer, Arc::clone(&received)));
        Self { address, received, _runtime: runtime }
    }

    /// Returns the requests that were received whole, in that order.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }
}

async fn accept(listener: TcpListener, answer: Answer, received: Arc<Mutex<Vec<Received>>>) {
    while let Ok((socket, _)) = listener.accept().await {
        let (answer, received) = (answer.clone(), Arc::clone(&received));
        let service = service_fn(move |request| respond(request, answer.clone(), Arc::clone(&received)));
        tokio::spawn(
            http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service),
        );
    }
}

async fn accept_tls(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answer: Answer,
    received: Arc<Mutex<Vec<Received>>>,
) {
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, answer, received) = (acceptor.clone(), answer.clone(), Arc::clone(&received));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else { return };
            let service = service_fn(move |request| respond(request, answer.clone(), Arc::clone(&received)));
            let server = auto::Builder::new(TokioExecutor::new());
            // A peer that leaves in the middle is no fault of the test.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Frames = stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>;

async fn respond(
    request: Request<Incoming>,
    answer: Answer,
    received: Arc<Mutex<Vec<Received>>>,
) -> Result<Response<StreamBody<Frames>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes().to_vec();
    let (version, path) = (parts.version, parts.uri.path().to_owned());
    received.lock().push(Received { version, path, headers: parts.headers, body });
    let mut frames: Vec<_> =
        answer.pieces.into_iter().map(|piece| Ok(Frame::data(Bytes::from(piece)))).collect();
    if !answer.trailers.is_empty() {
        frames.push(Ok(Frame::trailers(answer.trailers)));
    }
    let mut response = Response::new(StreamBody::new(stream::iter(frames)));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(answer.content_type));
    Ok(response)
}

#[test]
fn it_records_a_request_and_answers_with_pieces_and_trailers() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", http::HeaderValue::from_static("yes"));
    let pieces = vec![b"data: a\n\n".to_vec(), b"data: b\n\n".to_vec()];
    let upstream = H2Upstream::start(Answer { content_type: "text/event-stream", pieces, trailers });
    let runtime = Runtime::new().expect("a runtime");
    let (text, end) = runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(upstream.address).await.expect("it listens");
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket));
        let (mut sender, connection) = handshake.await.expect("HTTP/2");
        tokio::spawn(connection);
        let body = http_body_util::Full::new(Bytes::from_static(b"hello"));
        let request = Request::post("http://gateway.test/v1/x").body(body).expect("a request");
        let answer = sender.send_request(request).await.expect("an answer").collect().await.expect("a body");
        let end = answer.trailers().cloned();
        (answer.to_bytes(), end)
    });
    assert_eq!(&text[..], b"data: a\n\ndata: b\n\n");
    assert_eq!(end.expect("trailers")["x-end"], "yes");
    let received = upstream.received();
    assert_eq!((received[0].path.as_str(), &received[0].body[..]), ("/v1/x", &b"hello"[..]));
}
