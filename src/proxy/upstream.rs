//! The provider's side of an exchange, on Pingora's connector: pooled connections, TLS, h1 and h2.
//!
//! Pingora's own proxying writes the response head before any filter can judge the body, and cannot
//! end a stream in the caller's dialect. So the data plane asks the connector itself: the status
//! leaves only after the verdict, and a stream ends as its SDK expects. A request is tried again only
//! where nobody read it: when no connection could be made, and once where a provider says so of a stream of HTTP/2.

mod ask;
mod socket;

use std::collections::HashMap;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::HeaderValue;
use http::Uri;
use http::Version;
use http::header;
use parking_lot::Mutex;
use pingora::ErrorType;
use pingora::connectors::ConnectorOptions;
use pingora::connectors::TransportConnector;
use pingora::connectors::http::Connector;
use pingora::http::RequestHeader;
use pingora::http::ResponseHeader;
use pingora::prelude::timeout;
use pingora::protocols::ALPN;
use pingora::protocols::http::client::HttpSession;
use pingora::protocols::http::v1::client::HttpSession as Http1Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::upstreams::peer::Peer;
use pingora::utils::tls::WrappedX509;
use pingora::utils::tls::parse_x509;

use self::ask::ask;
use self::ask::is_unread;
pub use self::socket::Socket;
pub use self::socket::Unswitched;
use super::a2a;
use super::context::Service;
use super::gate::HeldBody;
use super::hidden::Hidden;
use super::sigv4::Signer;
use super::whole_write::WholeWrite;
use crate::access::cookie;
use crate::clock::Clock;
use crate::policy::route::Route;
use crate::policy::route::Upstream;
use crate::policy::route::UpstreamH2;
use crate::tls;

/// Other fields of a request that are not the provider's.
const NOT_PASSED_ON: [&str; 5] = ["expect", "content-length", "content-encoding", "range", "if-range"];
/// How long a resolved address is used.
const RESOLVED_FOR: Duration = Duration::from_secs(30);
/// How long an idle upstream connection is kept.
const IDLE_KEPT_FOR: Duration = Duration::from_secs(60);
/// Longer bodies, in bytes, are not kept to be sent once more.
const RESENT_BYTES_MAX: usize = 1 << 20;
/// Header fields of one connection, never of an exchange (RFC 9110 §7.6.1).
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamTimeouts {
    /// To connect, TLS included.
    pub connect: Duration,
    /// From when the request begins to leave, to the head of the response.
    pub first_byte: Duration,
    /// Between two pieces of the response.
    pub idle: Duration,
}

/// Why the provider gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamFault {
    /// No target of the route could be connected.
    #[error("the upstream of this route cannot be reached")]
    Unreachable(#[source] Option<Box<pingora::Error>>),
    /// No answer, or no further piece of it, in time.
    #[error("the upstream took too long")]
    Slow,
    /// The connection broke or spoke no HTTP.
    #[error("the upstream broke off")]
    Broken(#[source] Box<pingora::Error>),
    /// The route's CA file cannot be used.
    #[error("the upstream's CA file cannot be used")]
    CaFile(#[source] tls::CertificateFault),
    /// The forwarded request cannot be written as HTTP.
    #[error("the request cannot be forwarded")]
    Request(#[source] http::Error),
    /// The forwarded request cannot be signed.
    #[error("the request cannot be forwarded")]
    Unsigned(#[source] Box<pingora::Error>),
}

/// Connections to every upstream.
pub struct Upstreams {
    /// For targets that may speak HTTP/2.
    connector: Connector,
    /// For targets that speak HTTP/1 only.
    plain: TransportConnector,
    clock: Arc<dyn Clock>,
    resolved: Mutex<HashMap<(String, u16), Resolved>>,
    trusted: Mutex<HashMap<PathBuf, Arc<[WrappedX509]>>>,
    turn: AtomicUsize,
}

/// What a connection is for.
#[derive(Clone, Copy)]
enum Purpose {
    /// A request: one that was kept will do.
    Request,
    /// A socket, each write on which may take so long: a connection of its own, and no stream of HTTP/2.
    Socket(Duration),
}

struct Resolved {
    addresses: Vec<SocketAddr>,
    until: Duration,
}

/// A response whose head has been read and whose body has not.
pub struct Reply {
    session: HttpSession,
    peer: HttpPeer,
    idle: Duration,
    hidden: Option<Hidden>,
}

impl Upstreams {
    /// Returns a pool without connections, which keeps `idle_max` open.
    pub fn new(clock: Arc<dyn Clock>, idle_max: usize) -> Self {
        let options = ConnectorOptions::new(idle_max);
        Self {
            connector: Connector::new(Some(options.clone())),
            plain: TransportConnector::new(Some(options)),
            clock,
            resolved: Mutex::default(),
            trusted: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Forgets addresses and trusted certificates, so that the next exchange sees changed files.
    pub fn forget(&self) {
        self.resolved.lock().clear();
        self.trusted.lock().clear();
    }

    /// Sends one request and reads the head of its response.
    ///
    /// `head` is the caller's, already [`without_connection`]; `path` is what is forwarded (with its
    /// query), `body` what was cleared, given up once it has left; a `signer` signs them as they leave.
    /// `service` says at every moment what the provider is to be paid for.
    ///
    /// What a provider says that it did not read of HTTP/2 (a refused stream, or one behind the last of a connection that
    /// ends: RFC 9113, section 8.7) is sent once more, in what is left of the time for its first byte. For that, bodies
    /// up to 1 MiB are kept, with their room, until the provider begins to answer.
    pub async fn send(
        &self,
        route: &Route,
        (head, signer): (Box<RequestHeader>, Option<&Signer>),
        (path, body): (&str, HeldBody),
        timeouts: UpstreamTimeouts,
        service: &mut Service,
    ) -> Result<Reply, UpstreamFault> {
        let (mut request, mut left, mut is_first) = ((head, body), timeouts.first_byte, true);
        loop {
            let (mut head, HeldBody { bytes, reserved }) = request;
            let (mut session, peer, target) = self.connect(route, Purpose::Request, timeouts.connect).await?;
            let is_h2 = matches!(session, HttpSession::H2(_));
            let may_be_resent = is_h2 && is_first && bytes.len() <= RESENT_BYTES_MAX;
            let kept = may_be_resent.then(|| (head.clone(), bytes.clone()));
            address(&mut head, target, path, bytes.len(), is_h2).map_err(UpstreamFault::Request)?;
            if let Some(signer) = signer {
                signer.sign(&mut head, &authority(target), &bytes).map_err(UpstreamFault::Unsigned)?;
            }
            *service = Service::Untold;
            let (began, mut reserved) = (self.clock.monotonic(), Some(reserved));
            let given_up = if kept.is_none() { reserved.take() } else { None };
            let answered = timeout(left, ask(&mut session, head, bytes, given_up)).await;
            let error = match answered {
                Ok(Ok(())) => return Ok(Reply { session, peer, idle: timeouts.idle, hidden: None }),
                Ok(Err(error)) => error,
                Err(_) => return Err(UpstreamFault::Slow),
            };
            *service = Service::Nothing;
            match (kept, reserved) {
                (Some((head, bytes)), Some(reserved)) if is_unread(&error) => {
                    request = (head, HeldBody { bytes, reserved });
                    left = left.saturating_sub(self.clock.monotonic() - began);
                    is_first = false;
                }
                _ => return Err(UpstreamFault::Broken(error.into_up())),
            }
        }
    }

    /// Gives a connection back once its response was read to the end.
    pub async fn release(&self, reply: Reply) {
        let Reply { session, peer, .. } = reply;
        match session {
            HttpSession::H1(mut session) if peer.options.alpn == ALPN::H1 => {
                session.respect_keepalive();
                if let Some(stream) = session.reuse().await {
                    self.plain.release_stream(stream, peer.reuse_hash(), Some(IDLE_KEPT_FOR));
                }
            }
            session => self.connector.release_http_session(session, &peer, Some(IDLE_KEPT_FOR)).await,
        }
    }

    /// Returns a connection, pooled or new, with nothing under way.
    async fn session(&self, peer: &HttpPeer, purpose: Purpose) -> pingora::Result<HttpSession> {
        if let Purpose::Socket(_) = purpose {
            let stream = self.plain.new_stream(peer).await?;
            return Ok(HttpSession::H1(Http1Session::new_with_options(stream, peer)));
        }
        if peer.options.alpn == ALPN::H1 {
            let (stream, _) = self.plain.get_stream(peer).await?;
            return Ok(HttpSession::H1(Http1Session::new_with_options(WholeWrite::around(stream), peer)));
        }
        Ok(self.connector.get_http_session(peer).await?.0)
    }

    /// Connects to the first target and address of a route that can be, beginning with another target each time.
    async fn connect<'a>(
        &self,
        route: &'a Route,
        purpose: Purpose,
        connect: Duration,
    ) -> Result<(HttpSession, HttpPeer, &'a Upstream), UpstreamFault> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = route.upstreams.len();
        let mut last = UpstreamFault::Unreachable(None);
        for target in (0..count).map(|step| &route.upstreams[(first + step) % count]) {
            let addresses = match self.resolve(target, connect).await {
                Ok(addresses) => addresses,
                Err(fault) => {
                    last = fault;
                    continue;
                }
            };
            for address in addresses {
                let mut peer = self.peer_at(route, target, address, connect)?;
                if let Purpose::Socket(idle) = purpose {
                    peer.options.alpn = ALPN::H1;
                    peer.options.write_timeout = Some(idle);
                }
                // Pinned where they stand: these futures are large, and would be copied into the timeout.
                let session = {
                    let session = pin!(self.session(&peer, purpose));
                    timeout(connect, session).await
                };
                match session {
                    Ok(Ok(session)) => return Ok((session, peer, target)),
                    // Pingora keeps the same deadline and may be the first to see that it has passed.
                    Ok(Err(error)) if *error.etype() == ErrorType::ConnectTimedout => {
                        last = UpstreamFault::Slow;
                    }
                    Ok(Err(error)) => last = UpstreamFault::Unreachable(Some(error)),
                    Err(_) => last = UpstreamFault::Slow,
                }
            }
        }
        Err(last)
    }

    async fn resolve(&self, target: &Upstream, limit: Duration) -> Result<Vec<SocketAddr>, UpstreamFault> {
        if let Ok(address) = target.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, target.port)]);
        }
        let key = (target.host.clone(), target.port);
        let now = self.clock.monotonic();
        if let Some(known) = self.resolved.lock().get(&key).filter(|known| known.until > now) {
            return Ok(known.addresses.clone());
        }
        let lookup = tokio::net::lookup_host((target.host.as_str(), target.port));
        let found = timeout(limit, lookup).await.map_err(|_| UpstreamFault::Slow)?;
        let addresses: Vec<SocketAddr> = found.map_err(|_| UpstreamFault::Unreachable(None))?.collect();
        let resolved = Resolved { addresses: addresses.clone(), until: now + RESOLVED_FOR };
        self.resolved.lock().insert(key, resolved);
        Ok(addresses)
    }

    fn peer_at(
        &self,
        route: &Route,
        target: &Upstream,
        address: SocketAddr,
        connect: Duration,
    ) -> Result<HttpPeer, UpstreamFault> {
        let mut peer = HttpPeer::new(address, target.tls, target.host.clone());
        peer.options.connection_timeout = Some(connect);
        peer.options.total_connection_timeout = Some(connect);
        peer.options.idle_timeout = Some(IDLE_KEPT_FOR);
        peer.options.alpn = match (route.h2, target.tls) {
            (UpstreamH2::Always, _) => ALPN::H2,
            (UpstreamH2::Auto, true) => ALPN::H2H1,
            (UpstreamH2::Auto, false) | (UpstreamH2::Never, _) => ALPN::H1,
        };
        // Pingora's own key of a pooled connection knows neither of these.
        let mut group = DefaultHasher::new();
        (route.h2 as u8, &route.upstream_ca_file).hash(&mut group);
        peer.group_key = group.finish();
        if let Some(path) = &route.upstream_ca_file {
            peer.options.ca = Some(self.trust(path)?);
        }
        Ok(peer)
    }

    fn trust(&self, path: &PathBuf) -> Result<Arc<[WrappedX509]>, UpstreamFault> {
        if let Some(known) = self.trusted.lock().get(path) {
            return Ok(Arc::clone(known));
        }
        let chain = tls::certificates(path).map_err(UpstreamFault::CaFile)?;
        let trusted: Arc<[WrappedX509]> =
            chain.iter().map(|der| WrappedX509::new(der.as_ref().to_vec(), parse_x509)).collect();
        self.trusted.lock().insert(path.clone(), Arc::clone(&trusted));
        Ok(trusted)
    }
}

impl Reply {
    /// Returns the head of the response.
    pub fn head(&self) -> &ResponseHeader {
        self.session.response_header().expect("a reply is made after its head was read")
    }

    /// Shows a key nowhere in the response.
    pub fn hide(&mut self, key: &HeaderValue) {
        self.hidden = Hidden::new(key);
    }

    /// Returns a field of the head as a caller may see it.
    pub fn shown(&self, value: &HeaderValue) -> HeaderValue {
        self.hidden.as_ref().map_or_else(|| value.clone(), |hidden| hidden.field(value))
    }

    /// Returns the next piece of the body; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, UpstreamFault> {
        if self.hidden.as_ref().is_some_and(Hidden::is_over) {
            return Ok(None);
        }
        let piece = timeout(self.idle, self.session.read_response_body()).await;
        let piece = piece
            .map_err(|_| UpstreamFault::Slow)?
            .map_err(|error| UpstreamFault::Broken(error.into_up()))?;
        let Some(hidden) = &mut self.hidden else { return Ok(piece) };
        Ok(match piece {
            Some(piece) => Some(hidden.piece(piece)),
            None => hidden.rest(),
        })
    }

    /// Cuts the connection (h1) or the stream (h2), so that the provider stops at once.
    pub async fn cut(mut self) {
        self.session.shutdown().await;
    }
}

/// Returns the caller's head without what belongs to its connection, to the form of its body, and to us alone, and without
/// what asks for a part of an answer: a value on the border of two parts would leave.
pub fn without_connection(head: &RequestHeader) -> Box<RequestHeader> {
    let mut sent = Box::new(head.clone());
    for nominated in nominated_fields(&head.headers) {
        sent.remove_header(nominated.as_str());
    }
    a2a::strip_reserved(&mut sent);
    for name in HOP_BY_HOP.iter().chain(&NOT_PASSED_ON) {
        if sent.headers.contains_key(*name) {
            sent.remove_header(*name);
        }
    }
    join_cookies(&mut sent);
    sent
}

/// Makes one field of a head's cookies, which HTTP/2 may bring in many (RFC 9113, section 8.2.3): HTTP/1.1 knows no more
/// than one.
///
/// Sessions of the management plane are left out: a browser sends them to every port of its host, and they are no
/// provider's business.
fn join_cookies(head: &mut RequestHeader) {
    let given: Vec<HeaderValue> = head.headers.get_all(header::COOKIE).iter().cloned().collect();
    let kept = |value: &HeaderValue| match value.to_str() {
        Ok(text) => cookie::without_ours(text).and_then(|rest| rest.try_into().ok()),
        Err(_) => Some(value.clone()),
    };
    let kept: Vec<HeaderValue> = given.iter().filter_map(kept).collect();
    if kept == given && kept.len() < 2 {
        return;
    }
    head.remove_header(&header::COOKIE);
    let joined = kept.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"; "[..]);
    if !joined.is_empty() {
        // What were headers' values a moment ago are one now.
        let _ = head.append_header(header::COOKIE, joined);
    }
}

/// Addresses a head to a target, with the length of the body that goes with it.
fn address(
    head: &mut RequestHeader,
    target: &Upstream,
    path: &str,
    body_bytes: usize,
    is_h2: bool,
) -> Result<(), http::Error> {
    let authority = authority(target);
    let path =
        if target.base_path.is_empty() { path.to_owned() } else { format!("{}{path}", target.base_path) };
    // A header value of digits, and a host that the configuration has checked, are always valid.
    let valid = "digits and checked hosts are header values";
    if body_bytes > 0 || !matches!(head.method, http::Method::GET | http::Method::HEAD) {
        head.insert_header(header::CONTENT_LENGTH, body_bytes).expect(valid);
    }
    head.insert_header(header::ACCEPT_ENCODING, "identity").expect(valid);
    if is_h2 {
        head.remove_header(&header::HOST);
        let scheme = if target.tls { "https" } else { "http" };
        head.set_version(Version::HTTP_2);
        head.set_uri(Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build()?);
    } else {
        head.insert_header(header::HOST, authority).expect(valid);
        head.set_version(Version::HTTP_11);
        head.set_uri(Uri::builder().path_and_query(path).build()?);
    }
    Ok(())
}

/// Returns the fields that a head says are its connection's (RFC 9110, section 7.6.1), in small letters.
pub(super) fn nominated_fields(fields: &HeaderMap) -> Vec<String> {
    let lists = fields.get_all(header::CONNECTION).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// Returns the Host of a target: its port is left out where the scheme implies it.
pub(super) fn authority(target: &Upstream) -> String {
    let host = if target.host.contains(':') { format!("[{}]", target.host) } else { target.host.clone() };
    match (target.tls, target.port) {
        (true, 443) | (false, 80) => host,
        (_, port) => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sessions_of_our_own_people_reach_no_provider() {
        let mut head = RequestHeader::build("GET", b"/", None).expect("a head");
        for value in ["a=b; __Host-portcullis-session=x", "portcullis-session=y", "c=d"] {
            head.append_header("cookie", value).expect("a header");
        }
        let sent = without_connection(&head);
        let cookies: Vec<&HeaderValue> = sent.headers.get_all(header::COOKIE).iter().collect();
        assert_eq!(cookies, ["a=b; c=d"]);
    }
}
