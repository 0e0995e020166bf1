//! Which exchange goes where, and under which policy.

mod auth;

use std::cmp::Reverse;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;

pub use self::auth::AwsScope;
pub use self::auth::RouteAuth;
pub use crate::document::secret::SecretPlace;
use crate::document::section::Section;
use crate::policy::decision::PolicyId;
use crate::scan::threat::UnknownName;

/// The most routes of a configuration.
pub const ROUTES_MAX: usize = 1000;

/// The most targets of one route.
pub const UPSTREAMS_MAX: usize = 64;

const TIMEOUT_MS_MAX: u64 = 3_600_000;

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
    /// What its requests are signed for, with the provider's key, which is credentials of AWS then.
    pub aws: Option<AwsScope>,
    /// The policy that decides.
    pub policy: PolicyId,
    /// Whether WebSockets are carried.
    pub websocket: bool,
    /// Whether what is said on them passes uninspected.
    pub websocket_uninspected: bool,
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
    /// By its name: `openai`, `anthropic`, `gemini`, `bedrock`, `cohere`, `ollama`, `a2a`, `mcp`, `generic`.
    Named(String),
}

/// Timeouts of a route, in milliseconds; `None`: as `[proxy.timeouts]` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteTimeouts {
    /// To connect.
    pub upstream_connect_ms: Option<u64>,
    /// From when the request begins to leave, to the first byte of the answer.
    pub upstream_first_byte_ms: Option<u64>,
    /// Between two pieces of the answer.
    pub upstream_idle_ms: Option<u64>,
}

impl Route {
    /// Reads a route from its table.
    pub fn read(section: &mut Section<'_>) -> Self {
        let policy = section.choice_maybe("policy");
        let auth = RouteAuth::read(section);
        let route = Self {
            name: read_name(section),
            host: read_host(section),
            path_prefix: read_path_prefix(section),
            strip_prefix: section.flag_or("strip_prefix", false),
            upstreams: read_upstreams(section),
            upstream_ca_file: section.path_maybe("upstream_ca_file"),
            h2: section.choice_maybe("h2").unwrap_or(UpstreamH2::Auto),
            dialect: section.choice_maybe("dialect").unwrap_or(RouteDialect::Auto),
            aws: AwsScope::read(section, &auth),
            auth,
            policy: policy.unwrap_or_else(|| "default".parse().expect("a name of letters")),
            websocket: section.flag_or("websocket", false),
            websocket_uninspected: section.flag_or("websocket_uninspected", false),
            timeouts: RouteTimeouts::read(&mut section.section("timeouts")),
        };
        if route.websocket_uninspected && !route.websocket {
            section.invalid("websocket_uninspected", "needs websocket = true", None);
        }
        if route.is_for_agents() && route.websocket {
            section.invalid("websocket", "an agent's messages are signed one by one: no upgrades", None);
        }
        if route.aws.is_some() && route.websocket {
            section.invalid("websocket", "requests are signed one by one: no upgrades", None);
        }
        section.finish();
        route
    }

    /// Tells whether the route answers for a host (lower case, no port) and a normalised path.
    pub fn fits(&self, host: Option<&str>, path: &str) -> bool {
        self.fits_host(host) && self.fits_path(path)
    }

    /// Tells whether the callers of the route are agents.
    pub fn is_for_agents(&self) -> bool {
        self.auth == RouteAuth::A2a
    }

    /// Returns the path to forward for a path that fits: without the prefix where it is stripped.
    pub fn forwarded<'a>(&self, path: &'a str) -> &'a str {
        if !self.strip_prefix || self.path_prefix == "/" {
            return path;
        }
        let rest = path.strip_prefix(&self.path_prefix).unwrap_or(path);
        if rest.is_empty() { "/" } else { rest }
    }

    fn fits_host(&self, host: Option<&str>) -> bool {
        let Some(own) = self.host.as_deref() else { return true };
        let Some(host) = host else { return false };
        match own.strip_prefix('*') {
            None => own == host,
            Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        }
    }

    fn fits_path(&self, path: &str) -> bool {
        let prefix = if self.path_prefix == "/" { "" } else { self.path_prefix.as_str() };
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Orders routes so that the first that fits is the closest: an exact host before a wildcard,
    /// a longer wildcard before a shorter, any host last; then the longest prefix.
    pub(crate) fn closeness(&self) -> impl Ord + use<> {
        let host = match self.host.as_deref() {
            None => (2, Reverse(0)),
            Some(host) if host.starts_with('*') => (1, Reverse(host.len())),
            Some(_) => (0, Reverse(0)),
        };
        (host, Reverse(self.path_prefix.len()), self.name.clone())
    }
}

impl RouteTimeouts {
    fn read(section: &mut Section<'_>) -> Self {
        let timeouts = Self {
            upstream_connect_ms: section.number_maybe("upstream_connect_ms", 1..=TIMEOUT_MS_MAX),
            upstream_first_byte_ms: section.number_maybe("upstream_first_byte_ms", 1..=TIMEOUT_MS_MAX),
            upstream_idle_ms: section.number_maybe("upstream_idle_ms", 1..=TIMEOUT_MS_MAX),
        };
        section.finish();
        timeouts
    }
}

/// The text is no URL of an upstream.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidUpstream {
    /// It is no absolute `http` or `https` URL.
    #[error("expected a URL like https://api.example.com or http://127.0.0.1:11434/base")]
    Url,
    /// It carries a user name or a password.
    #[error("a URL must not carry credentials")]
    Credentials,
    /// It carries a query or a fragment.
    #[error("a URL of an upstream has no query and no fragment")]
    Query,
}

impl FromStr for Upstream {
    type Err = InvalidUpstream;

    fn from_str(text: &str) -> Result<Self, InvalidUpstream> {
        if text.contains('@') {
            return Err(InvalidUpstream::Credentials);
        }
        if text.contains(['?', '#']) {
            return Err(InvalidUpstream::Query);
        }
        let uri: Uri = text.parse().map_err(|_| InvalidUpstream::Url)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(InvalidUpstream::Url),
        };
        let authority = uri.authority().ok_or(InvalidUpstream::Url)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port_given = authority.as_str().len() > authority.host().len();
        let port = authority.port_u16().filter(|port| *port > 0);
        if host.is_empty() || (port_given && port.is_none()) || !plain_path(uri.path()) {
            return Err(InvalidUpstream::Url);
        }
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        let base_path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { tls, host, port, base_path })
    }
}

impl FromStr for UpstreamH2 {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "auto" => Ok(Self::Auto),
            "never" => Ok(Self::Never),
            "always" => Ok(Self::Always),
            _ => Err(UnknownName { expected: "auto, never, always" }),
        }
    }
}

impl FromStr for RouteDialect {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "auto" => Ok(Self::Auto),
            "openai" | "anthropic" | "gemini" | "bedrock" | "cohere" | "ollama" | "a2a" | "mcp"
            | "generic" => Ok(Self::Named(text.to_owned())),
            _ => Err(UnknownName {
                expected: "auto, openai, anthropic, gemini, bedrock, cohere, ollama, a2a, mcp, generic",
            }),
        }
    }
}

fn read_name(section: &mut Section<'_>) -> String {
    let name = section.text("name");
    let sane = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if section.has("name") && (name.is_empty() || name.len() > 64 || !name.bytes().all(sane)) {
        section.invalid("name", "expected 1 to 64 letters, digits, '_', '-' or '.'", None);
    }
    name.to_owned()
}

fn read_host(section: &mut Section<'_>) -> Option<String> {
    let host = section.text_maybe("host").filter(|host| !host.is_empty())?.to_ascii_lowercase();
    let bare = host.strip_prefix("*.").unwrap_or(&host);
    let sane = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let label = |label: &str| !label.is_empty() && label.len() < 64;
    if !bare.bytes().all(sane) || !bare.split('.').all(label) {
        section.invalid("host", "expected a host name without a port, or *. and a host name", None);
    }
    Some(host)
}

fn read_path_prefix(section: &mut Section<'_>) -> String {
    let prefix = section.text_maybe("path_prefix").unwrap_or("/");
    if !prefix.starts_with('/') || !plain_path(prefix) {
        section.invalid("path_prefix", "expected a path like /v1, without escapes, '.' and '..'", None);
    }
    let trimmed = prefix.trim_end_matches('/');
    if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() }
}

/// Tells whether a path is its own normal form.
fn plain_path(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,=:@".contains(&byte);
    let odd = |segment: &str| matches!(segment, "." | "..");
    path.bytes().all(plain) && !path.contains("//") && !path.split('/').any(odd)
}

fn read_upstreams(section: &mut Section<'_>) -> Vec<Upstream> {
    let texts = section.texts("upstream");
    if texts.is_empty() || texts.len() > UPSTREAMS_MAX {
        section.invalid("upstream", format!("expected 1 to {UPSTREAMS_MAX} URLs"), None);
    }
    let parsed = texts.iter().map(|text| text.parse::<Upstream>());
    let valid = parsed.filter_map(|result| match result {
        Ok(upstream) => Some(upstream),
        Err(error) => {
            section.invalid("upstream", error.to_string(), None);
            None
        }
    });
    valid.collect()
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

#[cfg(test)]
mod tests;
