//! A tower service behind a Pingora listener.
//!
//! The request is read whole (management bodies are small, and bounded; those with a text to be scanned may be larger, and
//! have a share of the memory for bodies then), the response is written as its frames come, so that an event stream is a
//! stream. When the client leaves, the response body is dropped at once, but a call that was begun is carried to its end:
//! a change whose client did not wait for the answer is recorded as every other. When the process ends, streams end
//! cleanly.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use bytes::BytesMut;
use http::HeaderMap;
use http::Request;
use http::Response;
use http::StatusCode;
use http::Uri;
use http::Version;
use http::header;
use http_body_util::BodyExt;
use pingora::apps::HttpPersistentSettings;
use pingora::apps::HttpServerApp;
use pingora::apps::ReusedHttpStream;
use pingora::http::ResponseHeader;
use pingora::protocols::http::HttpTask;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use tower::ServiceExt;

use super::head as heads;
use super::head::HeadFault;
use super::head::HeadLimits;
use crate::policy::handle::RulesetHandle;

/// How much a caller may write behind its request, within one wait, and still be waiting for its answer.
const UNASKED_BYTES_MAX: usize = 64 << 10;
/// After so many of those bytes the worker turns to others.
const UNASKED_BYTES_AT_ONCE: usize = 512;
/// The paths that take a text to be scanned, which may be as long as `limits.max_inspect_bytes`.
const TEXT_PATHS: [&str; 4] = ["/v1/scan", "/api/v1/scan", "/api/v1/screen", "/api/v1/screen/response"];
/// The most bytes in which JSON writes one byte of a text: `\u0001`.
const ESCAPED_BYTES_MAX: usize = 6;
/// What may stand around such a text.
const AROUND_TEXT_BYTES_MAX: usize = 64 << 10;
/// How long a client may leave what it asked for unread: who stops reading a stream gives its place back.
const WRITE_MAX: Duration = Duration::from_secs(30);

/// Bytes of memory that were set aside; they are given back when it is dropped.
pub type Share = Box<dyn Send + Sync>;

/// How much of a request is read, and for how long.
#[derive(Clone)]
pub struct AdapterLimits {
    /// The largest head.
    pub head: HeadLimits,
    /// Bytes of a request body.
    pub body_bytes_max: usize,
    /// For a whole request body.
    pub body_deadline: Duration,
    /// The running rules, which say how long a text to be scanned may be.
    pub rules: RulesetHandle,
    /// Sets memory aside for a body that is longer than others may be; `None`: there is none left.
    pub reserve: Arc<dyn Fn(usize) -> Option<Share> + Send + Sync>,
}

/// Who sent a request, as far as the connection tells; an extension of every request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub Option<IpAddr>);

/// Says that an answer is written as its pieces come, and never held as a whole; an extension of the answer.
#[derive(Clone, Copy, Debug)]
pub struct Streamed;

/// The management API as a Pingora application.
pub struct AdminApp {
    router: Router,
    limits: AdapterLimits,
}

/// Why a request never reached the router.
#[derive(Debug, thiserror::Error)]
pub enum ReadFault {
    /// The request is no HTTP, or its body broke off.
    #[error("the request is malformed or ended early")]
    Malformed(#[source] Box<pingora::Error>),
    /// The head could mean two things, or is too large.
    #[error(transparent)]
    Head(HeadFault),
    /// The body is in a content coding, and none is undone here.
    #[error("bodies with a content coding are not read here: send it as it is, without Content-Encoding")]
    Encoded,
    /// More bytes than the limit.
    #[error("the request body is larger than {0} bytes")]
    TooLarge(usize),
    /// As many bytes are held as may be.
    #[error("the gateway holds too many request bytes at the moment, try again")]
    Overloaded,
    /// The body did not end in time.
    #[error("the request body took too long")]
    Slow,
}

impl AdapterLimits {
    /// Returns the most bytes of a body at a path: a text may be written in more bytes than it has.
    fn bytes_max(&self, path: &str) -> usize {
        if !TEXT_PATHS.contains(&path) {
            return self.body_bytes_max;
        }
        let text = self.rules.load().limits.max_inspect_bytes;
        self.body_bytes_max.max(text.saturating_mul(ESCAPED_BYTES_MAX).saturating_add(AROUND_TEXT_BYTES_MAX))
    }
}

impl ReadFault {
    /// Returns the status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Head(HeadFault::TooLarge) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Head(HeadFault::Expectation) => StatusCode::EXPECTATION_FAILED,
            Self::Malformed(_) | Self::Head(_) => StatusCode::BAD_REQUEST,
            Self::Encoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

impl AdminApp {
    /// Serves `router`.
    pub fn new(router: Router, limits: AdapterLimits) -> Self {
        Self { router, limits }
    }
}

#[async_trait]
impl HttpServerApp for AdminApp {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        session.set_write_timeout(Some(WRITE_MAX));
        match session.read_request().await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                refuse(&mut session, self.router.clone(), ReadFault::Malformed(error)).await;
                return None;
            }
        }
        if let Err(fault) = check_head(&session, self.limits.head) {
            // The connection's end is all that may follow: where the next request begins is not known.
            let _ = turn_away(&mut session, self.router.clone(), ReadFault::Head(fault)).await;
            let _ = session.finish().await;
            return None;
        }
        if *shutdown.borrow() {
            session.set_keepalive(None);
        }
        serve(&mut session, self.router.clone(), &self.limits, Some(shutdown.clone())).await.ok()?;
        let settings = HttpPersistentSettings::for_session(&session);
        let reusable = session.finish().await.ok().flatten();
        reusable.map(|stream| ReusedHttpStream::from_reusable_stream(stream, settings))
    }
}

/// Answers the request whose head was read from `session`; returns the status.
///
/// # Errors
/// The connection is of no further use.
pub async fn serve(
    session: &mut ServerSession,
    router: Router,
    limits: &AdapterLimits,
    shutdown: Option<ShutdownWatch>,
) -> Result<StatusCode, Box<pingora::Error>> {
    let read = tokio::time::timeout(limits.body_deadline, read_body(session, limits)).await;
    let fault = match read.unwrap_or(Err(ReadFault::Slow)) {
        Ok((body, _share)) => return answer(session, request(session, body), router, shutdown).await,
        Err(fault) => fault,
    };
    turn_away(session, router, fault).await
}

/// Checks the head as the data plane does; but which methods a path takes, the router knows.
fn check_head(session: &ServerSession, limits: HeadLimits) -> Result<(), HeadFault> {
    let head = session.req_header();
    let raw = session.as_http1().map(|session| session.get_headers_raw_bytes());
    match heads::check((&head.method, &head.uri, head.version, &head.headers), raw.as_deref(), limits) {
        Ok(()) | Err(HeadFault::Method) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// Lets the edge say why a request is not read, dressed as every answer is; what is left of its body is not waited
/// for.
async fn turn_away(
    session: &mut ServerSession,
    router: Router,
    fault: ReadFault,
) -> Result<StatusCode, Box<pingora::Error>> {
    session.set_keepalive(None);
    let mut request = request(session, Bytes::new());
    request.extensions_mut().insert(Arc::new(fault));
    let response = router.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {});
    let status = response.status();
    // The client is at fault and may be gone; there is nobody else to tell.
    let _ = write(session, response, None).await;
    Ok(status)
}

async fn answer(
    session: &mut ServerSession,
    request: Request<Body>,
    router: Router,
    shutdown: Option<ShutdownWatch>,
) -> Result<StatusCode, Box<pingora::Error>> {
    // On a task of its own, which goes on when the client has left: between a change and its entry in the audit
    // log there is no place at which a call may be dropped.
    let answer = tokio::spawn(router.oneshot(request));
    let response = tokio::select! {
        response = answer => response,
        left = caller_left(session) => return Err(left),
    };
    let response = response.map_err(|error| {
        pingora::Error::because(pingora::ErrorType::InternalError, "a call was not carried to its end", error)
    })?;
    write(session, response.unwrap_or_else(|never: Infallible| match never {}), shutdown).await
}

/// Returns once the caller has left, with what Pingora says about it; otherwise never.
///
/// A caller that writes more than its request (a pipelined one) has not left: its answer is still
/// wanted. What it wrote is thrown away, because its leaving shows only behind it, and the connection
/// is closed after the answer, which tells it to send again (RFC 9112 §9.3.2). Past
/// [`UNASKED_BYTES_MAX`] it counts as gone: whoever writes that much does not read.
pub async fn caller_left(session: &mut ServerSession) -> Box<pingora::Error> {
    for count in 1.. {
        match session.read_body_or_idle(true).await {
            Err(error) if *error.etype() == pingora::ErrorType::ConnectError && count < UNASKED_BYTES_MAX => {
                session.set_keepalive(None);
            }
            Err(error) => return error.into_down(),
            Ok(_) => break,
        }
        if count.is_multiple_of(UNASKED_BYTES_AT_ONCE) {
            tokio::task::yield_now().await;
        }
    }
    std::future::pending().await
}

/// Reads a body, with a share of memory where it is longer than others may be.
async fn read_body(
    session: &mut ServerSession,
    limits: &AdapterLimits,
) -> Result<(Bytes, Option<Share>), ReadFault> {
    let bytes_max = limits.bytes_max(session.req_header().uri.path());
    let (mut body, mut share) = (BytesMut::new(), None);
    while let Some(piece) = session.read_request_body().await.map_err(ReadFault::Malformed)? {
        let bytes = body.len() + piece.len();
        if bytes > 0 && is_encoded(&session.req_header().headers) {
            return Err(ReadFault::Encoded);
        }
        if bytes > bytes_max {
            return Err(ReadFault::TooLarge(bytes_max));
        }
        if bytes > limits.body_bytes_max && share.is_none() {
            let wanted = told_length(&session.req_header().headers).unwrap_or(bytes_max).min(bytes_max);
            share = Some((limits.reserve)(wanted).ok_or(ReadFault::Overloaded)?);
        }
        body.extend_from_slice(&piece);
    }
    Ok((body.freeze(), share))
}

/// Tells whether a body is in a content coding.
fn is_encoded(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut names = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    let is_none = |name: &[u8]| name.is_empty() || name.eq_ignore_ascii_case(b"identity");
    names.any(|name| !is_none(name.trim_ascii()))
}

fn request(session: &ServerSession, body: Bytes) -> Request<Body> {
    let head = session.req_header();
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = head.method.clone();
    // Only the path matters to the router; a foreign authority must not.
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    *request.headers_mut() = head.headers.clone();
    // HTTP/2 names the host in the request line only.
    if let (None, Some(authority)) = (head.headers.get(header::HOST), head.uri.authority())
        && let Ok(host) = authority.as_str().parse()
    {
        request.headers_mut().insert(header::HOST, host);
    }
    request.extensions_mut().insert(peer_address(session));
    request
}

async fn write(
    session: &mut ServerSession,
    response: Response<Body>,
    shutdown: Option<ShutdownWatch>,
) -> Result<StatusCode, Box<pingora::Error>> {
    let (parts, mut body) = response.into_parts();
    let is_stream = parts.extensions.get::<Streamed>().is_some()
        || parts
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|t| t.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        let bytes = body.collect().await.map_err(into_pingora)?.to_bytes();
        let silent = session.req_header().method == http::Method::HEAD;
        let length = if silent { told_length(&parts.headers).unwrap_or(bytes.len()) } else { bytes.len() };
        // One that says that nothing changed is about a body that is not there (RFC 9110, section 8.6).
        let length = (parts.status != StatusCode::NOT_MODIFIED).then_some(length);
        let head = head(parts.status, &parts.headers, length)?;
        let mut tasks = vec![HttpTask::Header(Box::new(head), silent || bytes.is_empty())];
        if !silent && !bytes.is_empty() {
            tasks.push(HttpTask::Body(Some(bytes), true));
        }
        session.response_duplex_vec(tasks).await?;
        return Ok(parts.status);
    }
    let mut head = head(parts.status, &parts.headers, None)?;
    delimit(session, &mut head)?;
    session.write_response_header(Box::new(head)).await?;
    let mut shutdown = shutdown;
    loop {
        tokio::select! {
            frame = body.frame() => match frame {
                None => break,
                Some(frame) => {
                    let frame = frame.map_err(into_pingora)?;
                    if let Ok(bytes) = frame.into_data() {
                        session.write_response_body(bytes, false).await?;
                    }
                }
            },
            left = caller_left(session) => return Err(left),
            () = ended(&mut shutdown) => break,
        }
    }
    session.write_response_body(Bytes::new(), true).await?;
    Ok(parts.status)
}

/// Returns the length that a head tells: of an answer, whose body may have been left out because nobody asked for it, or of
/// a request.
fn told_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Resolves when the process is asked to end; never, where nobody would tell.
async fn ended(shutdown: &mut Option<ShutdownWatch>) {
    match shutdown {
        // A closed channel means that the server is gone.
        Some(shutdown) => drop(shutdown.wait_for(|ending| *ending).await),
        None => std::future::pending().await,
    }
}

fn head(
    status: StatusCode,
    headers: &HeaderMap,
    length: Option<usize>,
) -> Result<ResponseHeader, Box<pingora::Error>> {
    let mut head = ResponseHeader::build(status, Some(headers.len() + 1))?;
    for (name, value) in headers.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH) {
        head.append_header(name.clone(), value.clone())?;
    }
    if let Some(length) = length {
        head.insert_header(header::CONTENT_LENGTH, length)?;
    }
    Ok(head)
}

/// Says in the head of an answer how its body ends whose length nobody knows yet: by chunks, or, for callers of HTTP/1.0
/// who know none (RFC 9112, section 6.1), with the connection.
///
/// # Errors
/// Fails where the head takes no more fields.
pub fn delimit(session: &mut ServerSession, head: &mut ResponseHeader) -> pingora::Result<()> {
    if session.req_header().version <= Version::HTTP_10 {
        session.set_keepalive(None);
        return Ok(());
    }
    head.insert_header(header::TRANSFER_ENCODING, "chunked")
}

/// Answers a request whose head cannot be read, and which nobody can route.
async fn refuse(session: &mut ServerSession, router: Router, fault: ReadFault) {
    session.set_keepalive(None);
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(peer_address(session));
    request.extensions_mut().insert(Arc::new(fault));
    let response = router.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {});
    let (parts, body) = response.into_parts();
    let Ok(body) = body.collect().await else { return };
    let body = body.to_bytes();
    if let Ok(head) = head(parts.status, &parts.headers, Some(body.len())) {
        // The client is at fault and may be gone; there is nobody else to tell.
        let _ = session.write_error_response(head, body).await;
    }
}

fn peer_address(session: &ServerSession) -> PeerAddress {
    PeerAddress(session.client_addr().and_then(|address| address.as_inet()).map(|address| address.ip()))
}

fn into_pingora(error: axum::Error) -> Box<pingora::Error> {
    pingora::Error::because(pingora::ErrorType::InternalError, "the response body failed", error)
}
