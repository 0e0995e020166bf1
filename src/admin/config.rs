//! What the management plane needs to know before it listens.

use std::net::SocketAddr;

use crate::access::place::Network;
use crate::access::url::Origin;
use crate::tls::TlsFiles;

/// The management plane's configuration; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it listens; never empty.
    pub listen: Vec<SocketAddr>,
    /// The certificate to listen with; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether `/api/v1/*` is served on the data plane too.
    pub also_on_proxy: bool,
    /// Host names that requests may carry beside the listener's own addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Proxies in front of it, whose `X-Forwarded-For` tells who a client is; of nobody else it counts.
    pub trusted_proxies: Vec<Network>,
    /// How browsers call it, where that does not follow from the listener.
    pub public_url: Option<Origin>,
    /// Open connections in all.
    pub max_connections: usize,
    /// Open connections from one address.
    pub max_connections_per_address: usize,
    /// The longest request body.
    pub max_body_bytes: usize,
    /// The most audit streams open at once.
    pub max_streams: usize,
    /// The most of them that one credential has.
    pub max_streams_per_caller: u32,
}
