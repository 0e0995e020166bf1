//! Which exchange goes where, and under which policy.

use std::fmt;
use std::path::PathBuf;

use crate::policy::decision::PolicyId;

/// One way through the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The name in records and metrics; unique.
    pub name: String,
    /// The host it answers for, in lower case without a port; `None` for any. A leading `*.`
    /// stands for one or more labels.
    pub host: Option<String>,
    /// The path it answers for, in whole segments: `/v1` fits `/v1` and `/v1/x`, not `/v10`.
    pub path_prefix: String,
    /// Whether the prefix is taken off before the path is forwarded.
    pub strip_prefix: bool,
    /// Where it leads, tried in turn; never empty.
    pub upstreams: Vec<Upstream>,
    /// Certificates to trust beside the system's, in PEM.
    pub upstream_ca_file: Option<PathBuf>,
    /// Whether HTTP/2 is spoken to the upstream.
    pub h2: UpstreamH2,
    /// The shape of its bodies.
    pub dialect: RouteDialect,
    /// Who may use it.
    pub auth: RouteAuth,
    /// The policy that decides.
    pub policy: PolicyId,
    /// Whether WebSocket upgrades pass, uninspected.
    pub websocket: bool,
    /// Timeouts that differ from those of `[proxy.timeouts]`.
    pub timeouts: RouteTimeouts,
}

/// One target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Whether it is reached over TLS.
    pub tls: bool,
    /// The host name or address, IPv6 without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// A path to put before the forwarded one: empty, or begins with `/` and does not end with it.
    pub base_path: String,
}

/// Whether HTTP/2 is spoken to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamH2 {
    /// Where TLS negotiation offers it.
    Auto,
    /// Never.
    Never,
    /// Always, without TLS too.
    Always,
}

/// How a route knows the shape of its bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteDialect {
    /// By path and body.
    Auto,
    /// By its name: `openai`, `anthropic`, `gemini`, `ollama`, `generic`.
    Named(String),
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAuth {
    /// Whoever the provider lets in: the caller's credential goes through untouched.
    Transparent,
}

/// Timeouts of a route, in milliseconds; `None`: as `[proxy.timeouts]` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteTimeouts {
    /// To connect.
    pub upstream_connect_ms: Option<u64>,
    /// From the end of the request to the first byte of the answer.
    pub upstream_first_byte_ms: Option<u64>,
    /// Between two pieces of the answer.
    pub upstream_idle_ms: Option<u64>,
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}{}", self.host, self.port, self.base_path)
        } else {
            write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.base_path)
        }
    }
}
