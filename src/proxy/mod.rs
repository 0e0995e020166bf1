//! The data plane: from a caller's request to the provider's answer, nothing uninspected in between.
//!
//! Pingora accepts, parses and keeps connections; [`Gateway`] is its [`ProxyHttp`]. The exchange with
//! the provider happens inside `request_filter`, because Pingora's own proxying writes the response
//! head before a body can be judged, and cannot end a stream in the caller's dialect (see
//! [`upstream`]). Only upgraded connections, on routes that allow them, take Pingora's own way.
//!
//! | phase | what happens |
//! |---|---|
//! | `new_ctx` | the ruleset is pinned, the clock read |
//! | `request_filter` | head and path, route, quota, body, verdict, provider, verdict, answer |
//! | `upstream_peer`, `upstream_request_filter` | upgraded connections only |
//! | `fail_to_proxy` | what Pingora itself refuses, in the caller's shape |
//! | `logging` | the one record of the exchange |

mod a2a;
mod admit;
pub mod coding;
pub mod config;
mod contain;
pub mod context;
pub mod gate;
pub mod guard;
pub mod local;
mod meter;
pub mod path;
pub mod provider_key;
pub mod read_back;
mod record;
mod refuse;
pub mod reject;
mod request;
mod response;
pub mod scope;
mod signed;
mod stream;
mod trace;
mod trial;
mod trust;
pub mod upstream;
mod whole_write;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header;
use pingora::http::RequestHeader;
use pingora::http::ResponseHeader;
use pingora::proxy::FailToProxy;
use pingora::proxy::ProxyHttp;
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;

use self::config::ProxyConfig;
use self::contain::contained;
use self::context::Exchange;
use self::context::Passage;
use self::context::Service;
use self::gate::ByteBudget;
use self::provider_key::ProviderKeys;
use self::read_back::ReadBack;
use self::reject::Rejection;
use self::scope::ScopeRefusal;
use self::upstream::UpstreamTimeouts;
use self::upstream::Upstreams;
use crate::access::a2a::Guardrails;
use crate::access::authenticator::Authenticator;
use crate::access::budget::Budgets;
use crate::access::concurrency::Concurrency;
use crate::access::identity::CallerHash;
use crate::access::license::Licensing;
use crate::access::limit::Buckets;
use crate::access::limit::LimitState;
use crate::access::refusals::Refusals;
use crate::admin::adapter::caller_left;
use crate::admin::head;
use crate::admin::head::HeadLimits;
use crate::clock::Clock;
use crate::govern::abtest::AbTests;
use crate::govern::analytics::Meter;
use crate::govern::audit::Recorder;
use crate::govern::trust::Trust;
use crate::id::UlidSource;
use crate::llm::dialect::Wire;
use crate::otlp::Otlp;
use crate::policy::decision::Cleared;
use crate::policy::handle::RulesetHandle;
use crate::policy::pin::Pins;
use crate::policy::route::RouteDialect;
use crate::redact::mask::Masker;
use crate::redact::mask::TenantKey;
use crate::redact::token::Vault;
use crate::telemetry::Telemetry;

/// The data plane and what it leans on.
pub struct Gateway {
    /// What it was started with.
    pub config: ProxyConfig,
    /// The rules in force.
    pub rules: RulesetHandle,
    /// Connections to providers.
    pub upstreams: Arc<Upstreams>,
    /// The bytes that may wait in memory.
    pub budget: Arc<ByteBudget>,
    /// The gateway's own paths.
    pub own: local::OwnPaths,
    /// Quotas.
    pub buckets: Arc<Buckets>,
    /// Requests under way, shared with the management plane.
    pub concurrency: Arc<Concurrency>,
    /// Turns credentials into caller ids.
    pub callers: Arc<CallerHash>,
    /// What masks and placeholders are made with.
    pub tenant: TenantKey,
    /// The tools that callers know.
    pub pins: Arc<Pins>,
    /// A/B tests of the third layer.
    pub abtests: Arc<AbTests>,
    /// What is thought of agents.
    pub trust: Arc<Trust>,
    /// Turns values into masks.
    pub masker: Arc<Masker>,
    /// Knows our credentials, for routes that take them.
    pub authenticator: Authenticator,
    /// How many refusals are recorded.
    pub refusals: Refusals,
    /// What calls of agents are judged by.
    pub guardrails: Arc<Guardrails>,
    /// What keys may use.
    pub budgets: Arc<Budgets>,
    /// What the providers of those routes get instead.
    pub provider_keys: Arc<ProviderKeys>,
    /// The licence; callers who present none of our keys have the tier of the deployment.
    pub licensing: Arc<Licensing>,
    /// The audit log.
    pub recorder: Recorder,
    /// Counts what is used.
    pub meter: Arc<Meter>,
    /// The answers whose use was counted when they were read.
    pub read_back: ReadBack,
    /// Whether traffic goes on while the audit log cannot be written.
    pub without_record: bool,
    /// The collector of traces, where there is one.
    pub otlp: Option<Otlp>,
    /// Metrics and today's statistics.
    pub telemetry: Arc<Telemetry>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Request ids.
    pub ids: UlidSource,
}

/// Why an exchange ends before its answer is complete.
#[derive(Debug)]
pub enum Stop {
    /// The caller is told why.
    Reject(Rejection),
    /// The caller is gone, or can no longer be told.
    Gone(Option<Box<pingora::Error>>),
}

impl Stop {
    fn gone(error: Option<Box<pingora::Error>>) -> Self {
        Self::Gone(error)
    }

    /// Returns the stop of an exchange whose response head has left: nothing more can be told.
    fn after_head(self) -> Self {
        match self {
            Self::Reject(_) => Self::Gone(None),
            gone => gone,
        }
    }
}

impl<R: Into<Rejection>> From<R> for Stop {
    fn from(rejection: R) -> Self {
        Self::Reject(rejection.into())
    }
}

impl From<Box<pingora::Error>> for Stop {
    fn from(error: Box<pingora::Error>) -> Self {
        Self::Gone(Some(error))
    }
}

/// What Pingora does with the request next.
enum Next {
    /// Nothing: it was answered.
    Answered,
    /// It carries an upgraded connection to the provider.
    Upgrade,
}

#[async_trait]
impl ProxyHttp for Gateway {
    type CTX = Exchange;

    fn new_ctx(&self) -> Exchange {
        let vault = Vault::new(self.tenant.clone());
        Exchange::new(self.clock.monotonic(), self.rules.load(), vault)
    }

    async fn request_filter(&self, session: &mut Session, exchange: &mut Exchange) -> pingora::Result<bool> {
        self.telemetry.metrics.began();
        self.prepare(session);
        // In a box: Pingora copies this future several times on its way.
        let whole = Box::pin(self.exchange(session, exchange));
        let stop = match contained(whole, &self.telemetry.metrics).await {
            Ok(Next::Answered) => return Ok(true),
            Ok(Next::Upgrade) => return Ok(false),
            Err(stop) => stop,
        };
        match stop {
            Stop::Reject(rejection) => self.refuse(session, exchange, &rejection).await?,
            // An error, not an end: Pingora would complete a body that was cut.
            Stop::Gone(error) => {
                exchange.outcome.reason.get_or_insert("caller_gone");
                let cut =
                    || pingora::Error::explain(pingora::ErrorType::ConnectionClosed, "the answer was cut");
                return Err(error.unwrap_or_else(cut).into_down());
            }
        }
        Ok(true)
    }

    async fn upstream_peer(
        &self,
        _session: &mut Session,
        exchange: &mut Exchange,
    ) -> pingora::Result<Box<HttpPeer>> {
        let unrouted = || pingora::Error::new(pingora::ErrorType::InternalError);
        let passage = exchange.passage.clone().ok_or_else(unrouted)?;
        let connect = self.timeouts(&passage).connect;
        let peer = self.upstreams.peer(passage.route(), connect).await;
        peer.map_err(|fault| {
            pingora::Error::because(pingora::ErrorType::ConnectError, "upgrade", fault).into_up()
        })
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        head: &mut RequestHeader,
        exchange: &mut Exchange,
    ) -> pingora::Result<()> {
        let Some(passage) = &exchange.passage else { return Ok(()) };
        a2a::strip_reserved(head);
        if let Some(target) = passage.route().upstreams.first() {
            head.insert_header(header::HOST, upstream::authority(target))?;
            let path = format!("{}{}", target.base_path, forwarded_path(session, exchange, passage));
            head.set_raw_path(path.as_bytes())?;
        }
        upstream::remove_sessions(head);
        let exchanged = self.exchange_key(head, exchange, passage);
        exchanged.map_err(|_| pingora::Error::explain(pingora::ErrorType::InternalError, "no provider key"))
    }

    /// Lets only a switch of protocols pass: any other answer would reach the caller unread.
    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        head: &mut ResponseHeader,
        _exchange: &mut Exchange,
    ) -> pingora::Result<()> {
        match head.status {
            http::StatusCode::SWITCHING_PROTOCOLS => Ok(()),
            _ => Err(pingora::Error::explain(pingora::ErrorType::InvalidHTTPHeader, "no upgrade").into_up()),
        }
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        head: &mut ResponseHeader,
        exchange: &mut Exchange,
    ) -> pingora::Result<()> {
        if self.telemetry.lifecycle.is_ending() {
            session.set_keepalive(None);
        }
        exchange.outcome.status = Some(head.status);
        exchange.outcome.switched = Some(self.clock.monotonic().saturating_sub(exchange.began));
        self.decorate(head, exchange)
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &pingora::Error,
        exchange: &mut Exchange,
    ) -> FailToProxy {
        let head_left = session.response_written().is_some_and(|head| !head.status.is_informational());
        if !head_left && *error.esource() != pingora::ErrorSource::Downstream {
            // The answer is best effort: the connection may be what failed.
            let rejection = match error.esource() {
                pingora::ErrorSource::Upstream => Rejection::UpgradeFailed,
                _ => Rejection::Internal,
            };
            let _ = self.refuse(session, exchange, &rejection).await;
        }
        FailToProxy { error_code: 502, can_reuse_downstream: false }
    }

    /// Pingora would log the request's target, whose query may hold a credential.
    fn suppress_error_log(&self, _session: &Session, _exchange: &Exchange, _error: &pingora::Error) -> bool {
        true
    }

    async fn logging(&self, session: &mut Session, _error: Option<&pingora::Error>, exchange: &mut Exchange) {
        self.record(session, exchange).await;
    }
}

impl Gateway {
    fn prepare(&self, session: &mut Session) {
        let timeouts = &self.config.timeouts;
        // Only where the connection is kept: the caller may have asked to close it.
        if session.get_keepalive().is_some() {
            session.set_keepalive(Some(timeouts.keepalive_ms.div_ceil(1000)));
        }
        session.set_write_timeout(Some(Duration::from_millis(timeouts.write_ms)));
    }

    /// One exchange, from its head to its answer.
    async fn exchange(&self, session: &mut Session, exchange: &mut Exchange) -> Result<Next, Stop> {
        let offered = session.get_header("x-request-id").map(|id| id.as_bytes().to_vec());
        let offered = offered.filter(|_| self.config.trust_request_id);
        exchange.name(offered.as_deref(), || self.ids.next(self.clock.now().as_millisecond()));
        exchange.trace = self.otlp.as_ref().and_then(|otlp| otlp.begin(&session.req_header().headers));
        self.check_head(session, exchange)?;
        if self.own.contains(&exchange.path) {
            self.serve_own(session, exchange).await?;
            return Ok(Next::Answered);
        }
        let passage = self.route(session, exchange)?;
        self.admit(session, exchange, &passage)?;
        let is_upgrade = head::is_websocket(session.req_header());
        if is_upgrade {
            self.admit_upgrade(session, exchange, &passage)?;
        }
        if !self.records() {
            return Err(Rejection::Unrecorded.into());
        }
        if is_upgrade {
            self.keep_begin(exchange).await?;
            return Ok(Next::Upgrade);
        }
        let cleared = self.clear_request(session, exchange, &passage).await?;
        self.reserve(exchange)?;
        self.forward(session, exchange, &passage, cleared).await?;
        Ok(Next::Answered)
    }

    /// Refuses an upgrade that the route does not carry, or whose use would have to be known.
    fn admit_upgrade(
        &self,
        session: &Session,
        exchange: &Exchange,
        passage: &Passage,
    ) -> Result<(), Rejection> {
        // What an upgraded connection uses cannot be counted.
        if !passage.route().websocket || self.is_budgeted(exchange) {
            return Err(Rejection::Upgrade);
        }
        if exchange.scope.as_ref().is_some_and(|scope| scope.reads_requests()) {
            return Err(Rejection::Scope(ScopeRefusal::Upgrade));
        }
        Ok(head::check_websocket(session.req_header())?)
    }

    fn check_head(&self, session: &Session, exchange: &mut Exchange) -> Result<(), Rejection> {
        let head = session.req_header();
        let raw = session.as_downstream().as_http1().map(|session| session.get_headers_raw_bytes());
        let limits =
            HeadLimits { bytes_max: self.config.max_header_bytes, fields_max: self.config.max_headers };
        head::check((&head.method, &head.uri, head.version, &head.headers), raw.as_deref(), limits)?;
        exchange.path = path::normalise(head.uri.path())?;
        Ok(())
    }

    fn route(&self, session: &Session, exchange: &mut Exchange) -> Result<Passage, Rejection> {
        let head = session.req_header();
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| head.uri.authority().map(|authority| authority.as_str()));
        let host = host.map(|host| without_port(host).to_ascii_lowercase());
        let passage =
            Passage::find(&exchange.rules, host.as_deref(), &exchange.path).ok_or(Rejection::NoRoute)?;
        let dialects = &exchange.rules.dialects;
        let path = passage.route().forwarded(&exchange.path);
        let named = match &passage.route().dialect {
            RouteDialect::Named(name) => dialects.get(name).map(|dialect| dialects.of(dialect, path, None)),
            RouteDialect::Auto => None,
        };
        exchange.detected = Some(named.unwrap_or_else(|| dialects.detect(path, None)));
        exchange.passage = Some(passage.clone());
        Ok(passage)
    }

    async fn forward(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        cleared: Cleared,
    ) -> Result<(), Stop> {
        let path = forwarded_path(session, exchange, passage);
        let mut head = upstream::without_connection(session.req_header());
        self.exchange_key(&mut head, exchange, passage)?;
        a2a::introduce(&mut head, exchange, passage)?;
        trace::tell(&mut head, exchange)?;
        let timeouts = self.timeouts(passage);
        let began = self.clock.monotonic();
        exchange.outcome.asked_after = Some(began.saturating_sub(exchange.began));
        let (sent, service) = ((&*path, cleared.into_bytes()), &mut exchange.outcome.service);
        let send = self.upstreams.send(passage.route(), head, sent, timeouts, service);
        let reply = tokio::select! {
            biased;
            reply = send => reply.map_err(Rejection::from)?,
            left = caller_left(session.as_downstream_mut()) => return Err(Stop::gone(Some(left))),
        };
        exchange.outcome.upstream = Some(self.clock.monotonic() - began);
        if !reply.head().status.is_success() {
            exchange.outcome.service = Service::Nothing;
        }
        self.relay(session, exchange, passage, reply).await
    }

    /// Puts the provider's key in the place of ours, on routes that take ours.
    fn exchange_key(
        &self,
        head: &mut RequestHeader,
        exchange: &Exchange,
        passage: &Passage,
    ) -> Result<(), Rejection> {
        let Some(presented) = &exchange.presented else { return Ok(()) };
        let place = passage.route().auth.provider_key();
        let wire = exchange.detected.as_ref().map_or(Wire::Generic, |detected| detected.wire);
        let is_had = self.provider_keys.exchange(head, presented, wire, place);
        if is_had { Ok(()) } else { Err(Rejection::NoProviderKey) }
    }

    fn timeouts(&self, passage: &Passage) -> UpstreamTimeouts {
        let own = &self.config.timeouts;
        let route = &passage.route().timeouts;
        let ms = |route: Option<u64>, own: u64| Duration::from_millis(route.unwrap_or(own));
        UpstreamTimeouts {
            connect: ms(route.upstream_connect_ms, own.upstream_connect_ms),
            first_byte: ms(route.upstream_first_byte_ms, own.upstream_first_byte_ms),
            idle: ms(route.upstream_idle_ms, own.upstream_idle_ms),
        }
    }

    fn unlimited(&self) -> LimitState {
        LimitState::unlimited(self.clock.now())
    }
}

/// Returns a host without its port.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or(host),
    }
}

/// Returns the path that goes to the provider, with its query, without a prefix that only routes.
fn forwarded_path(session: &Session, exchange: &Exchange, passage: &Passage) -> String {
    let path = passage.route().forwarded(&exchange.path).to_owned();
    match session.req_header().uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    }
}
