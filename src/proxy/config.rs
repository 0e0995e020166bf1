//! What the data plane needs to know before it listens.

use std::net::SocketAddr;

use crate::tls::TlsFiles;

/// The data plane's configuration; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    /// Where it listens; never empty.
    pub listen: Vec<SocketAddr>,
    /// The certificate to listen with; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether callers may speak HTTP/2: by negotiation with TLS, with prior knowledge without.
    pub h2: bool,
    /// The most connections at once, those that have yet to make their TLS handshake included.
    pub max_connections: usize,
    /// The most connections of one address at once.
    pub max_connections_per_address: usize,
    /// The most requests on one connection.
    pub max_requests_per_connection: u32,
    /// The most HTTP/2 streams at once on one connection.
    pub h2_streams_max: u32,
    /// The most bytes of a request's header block.
    pub max_header_bytes: usize,
    /// The most headers of a request.
    pub max_headers: usize,
    /// Whether a sane `X-Request-Id` of the caller is taken over.
    pub trust_request_id: bool,
    /// The most idle connections kept to all upstreams.
    pub upstream_idle_connections: usize,
    /// The worker threads; `None` for one per core.
    pub threads: Option<usize>,
    /// How long connections are still taken, with `/ready` at 503, when the process is asked to end.
    pub shutdown_notice_ms: u64,
    /// How long running exchanges may go on when the process is asked to end.
    pub shutdown_grace_ms: u64,
    /// The deadlines of an exchange.
    pub timeouts: Timeouts,
}

/// The deadlines of an exchange, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a request's header block, from its first byte, for a TLS handshake, and for the first byte of a fresh
    /// connection.
    pub header_ms: u64,
    /// For a request's whole body.
    pub body_ms: u64,
    /// For one write to the caller.
    pub write_ms: u64,
    /// To connect to an upstream, TLS included.
    pub upstream_connect_ms: u64,
    /// From when the request begins to leave, to the first byte of the answer.
    pub upstream_first_byte_ms: u64,
    /// Between two pieces of the answer.
    pub upstream_idle_ms: u64,
    /// For an idle connection of a caller.
    pub keepalive_ms: u64,
}
