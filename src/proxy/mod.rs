//! The data plane: from a caller's request to the provider's answer, nothing uninspected in between.
//!
//! Pingora accepts, parses and keeps connections; [`Gateway`] is its [`ProxyHttp`]. The exchange with
//! the provider happens inside `request_filter`, because Pingora's own proxying writes the response
//! head before a body can be judged, and cannot end a stream in the caller's dialect (see
//! [`upstream`]); so do sockets, whose frames are judged on their way ([`socket`]).
//!
//! | phase | what happens |
//! |---|---|
//! | `new_ctx` | the ruleset is pinned, the clock read |
//! | `request_filter` | head and path, route, quota, body, verdict, provider, verdict, answer |
//! | `upstream_peer` | never: nothing takes Pingora's own way |
//! | `fail_to_proxy` | what Pingora itself refuses, in the caller's shape |
//! | `logging` | the one record of the exchange |

mod a2a;
mod admit;
pub mod bare;
mod begun;
pub mod coding;
pub mod config;
mod contain;
pub mod context;
pub mod gate;
pub mod guard;
mod hidden;
mod lead;
pub mod local;
mod meter;
mod parted;
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
pub mod sigv4;
mod socket;
mod standing;
mod stream;
mod trace;
mod trial;
mod trust;
pub mod upstream;
mod whole_write;
mod wrapped;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header;
use pingora::http::RequestHeader;
use pingora::proxy::FailToProxy;
use pingora::proxy::ProxyHttp;
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;

use self::config::ProxyConfig;
use self::contain::contained;
use self::contain::counted;
use self::context::Exchange;
use self::context::Passage;
use self::context::Service;
use self::gate::ByteBudget;
use self::gate::HeldBody;
use self::provider_key::ProviderKeys;
use self::read_back::ReadBack;
use self::reject::Rejection;
use self::sigv4::Signer;
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
use crate::llm::dialect::Detected;
use crate::llm::dialect::Wire;
use crate::otlp::Otlp;
use crate::policy::decision::Cleared;
use crate::policy::handle::RulesetHandle;
use crate::policy::parted::PartedFiles;
use crate::policy::pin::Pins;
use crate::policy::route::RouteDialect;
use crate::policy::route::SecretPlace;
use crate::redact::mask::Masker;
use crate::redact::mask::TenantKey;
use crate::redact::token::Vault;
use crate::telemetry::Telemetry;
use crate::telemetry::lifecycle::Stage;

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
    /// The files that callers bring part by part.
    pub parted_files: PartedFiles,
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

/// The seats of upgraded connections.
const UPGRADED: &str = "upgraded";

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
            Ok(()) => return Ok(true),
            Err(stop) => stop,
        };
        match stop {
            Stop::Reject(rejection) => self.refuse(session, exchange, &rejection).await?,
            // An error, not an end: Pingora would complete a body that was cut.
            Stop::Gone(error) => {
                let is_ours = self.telemetry.lifecycle.stage() >= Stage::Cutting;
                exchange.outcome.reason.get_or_insert(if is_ours { "shutdown" } else { "caller_gone" });
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
        _exchange: &mut Exchange,
    ) -> pingora::Result<Box<HttpPeer>> {
        pingora::Error::e_explain(pingora::ErrorType::InternalError, "every request is answered before")
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &pingora::Error,
        exchange: &mut Exchange,
    ) -> FailToProxy {
        let head_left = refuse::has_answered(session);
        if !head_left && *error.esource() != pingora::ErrorSource::Downstream {
            // The answer is best effort: the connection may be what failed.
            let _ = self.refuse(session, exchange, &Rejection::Internal).await;
        }
        FailToProxy { error_code: 502, can_reuse_downstream: false }
    }

    /// Pingora would log the request's target, whose query may hold a credential.
    fn suppress_error_log(&self, _session: &Session, _exchange: &Exchange, _error: &pingora::Error) -> bool {
        true
    }

    async fn logging(&self, session: &mut Session, _error: Option<&pingora::Error>, exchange: &mut Exchange) {
        // A panic here would take the caller's connection along, and nobody would hear of it.
        let written = counted(self.record(session, exchange), &self.telemetry.metrics).await;
        self.telemetry.metrics.ended();
        if written.is_none() {
            self.record_rest(exchange).await;
        }
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
    async fn exchange(&self, session: &mut Session, exchange: &mut Exchange) -> Result<(), Stop> {
        let offered = session.get_header("x-request-id").map(|id| id.as_bytes().to_vec());
        let offered = offered.filter(|_| self.config.trust_request_id);
        exchange.name(offered.as_deref(), || self.ids.next(self.clock.now().as_millisecond()));
        exchange.trace = self.otlp.as_ref().and_then(|otlp| otlp.begin(&session.req_header().headers));
        self.check_head(session, exchange)?;
        if self.own.contains(&exchange.path) {
            return self.serve_own(session, exchange).await;
        }
        let passage = self.route(session, exchange)?;
        self.admit(session, exchange, &passage).await?;
        exchange.share = Some(self.share_of(session, exchange));
        let is_upgrade = head::is_websocket(session.req_header());
        if is_upgrade {
            self.admit_upgrade(session, exchange, &passage).await?;
        }
        if !self.records() {
            return Err(Rejection::Unrecorded.into());
        }
        if is_upgrade {
            return Box::pin(self.carry_socket(session, exchange, &passage)).await;
        }
        let cleared = self.clear_request(session, exchange, &passage).await?;
        self.reserve(exchange).await?;
        self.forward(session, exchange, &passage, cleared).await
    }

    /// Refuses an upgrade that the route does not carry, whose use would have to be known, or for which its caller has
    /// no room left.
    async fn admit_upgrade(
        &self,
        session: &Session,
        exchange: &mut Exchange,
        passage: &Passage,
    ) -> Result<(), Rejection> {
        let route = passage.route();
        let ends_texts = exchange.detected.as_ref().is_some_and(|detected| detected.dialect.ends_texts());
        // What is asked and used is known where answers are told apart, and are read.
        let is_counted = ends_texts && !route.websocket_uninspected;
        if !route.websocket || (!is_counted && self.is_budgeted(exchange)) {
            return Err(Rejection::Upgrade);
        }
        self.check_socket_scope(session, exchange, is_counted)?;
        head::check_websocket(session.req_header())?;
        meter::note_socket_models(session.req_header(), exchange, passage);
        self.stand_by(exchange).await?;
        // Who has no limit needs no seat, of either kind.
        let max = exchange.rules.limits.upgraded_connections_per_caller;
        if let Some(seat) = exchange.seat.as_ref().filter(|_| max > 0) {
            exchange.connection = Some(seat.beside(UPGRADED, max).ok_or(Rejection::TooManyAtOnce)?);
        }
        Ok(())
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
        let (passage, detected) = bound_for(session, exchange, &exchange.path).ok_or(Rejection::NoRoute)?;
        exchange.detected = Some(detected);
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
        self.ensure_standing(session, exchange)?;
        let path = forwarded_path(session, exchange, passage);
        let mut head = upstream::without_connection(session.req_header());
        self.exchange_key(&mut head, exchange, passage)?;
        a2a::introduce(&mut head, exchange, passage)?;
        trace::tell(&mut head, exchange)?;
        let signer = self.signer(passage)?;
        let timeouts = self.timeouts(passage);
        let began = self.clock.monotonic();
        exchange.outcome.asked_after = Some(began.saturating_sub(exchange.began));
        let reserved = exchange.reserved.take().unwrap_or_else(|| self.room_of(exchange));
        let body = HeldBody { bytes: cleared.into_bytes(), reserved };
        let (sent, service) = ((&*path, body), &mut exchange.outcome.service);
        let send = self.upstreams.send(passage.route(), (head, signer.as_ref()), sent, timeouts, service);
        let mut reply = tokio::select! {
            biased;
            reply = send => reply.map_err(Rejection::from)?,
            left = caller_left(session.as_downstream_mut()) => return Err(Stop::gone(Some(left))),
        };
        if let Some(key) = key_place(exchange, passage).and_then(|place| self.provider_keys.held(place)) {
            reply.hide(&key);
        }
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
        let wire = exchange.detected.as_ref().map_or(Wire::Generic, |detected| detected.wire);
        let place = key_place(exchange, passage);
        let is_had = self.provider_keys.exchange(head, presented, wire, place);
        if is_had { Ok(()) } else { Err(Rejection::NoProviderKey) }
    }

    /// Returns what signs the requests of a route, where that holds credentials for it.
    fn signer(&self, passage: &Passage) -> Result<Option<Signer>, Rejection> {
        let Some(scope) = &passage.route().aws else { return Ok(None) };
        let held = passage.route().auth.provider_key().and_then(|place| self.provider_keys.held(place));
        let signer = held.and_then(|held| Signer::read(&held, scope, self.clock.now()));
        signer.map(Some).ok_or(Rejection::NoProviderKey)
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

/// Returns where the key of the provider lies that goes out with an exchange; credentials of AWS never travel: what they sign
/// does.
fn key_place<'a>(exchange: &Exchange, passage: &'a Passage) -> Option<&'a SecretPlace> {
    let travels = exchange.presented.is_some() && passage.route().aws.is_none();
    passage.route().auth.provider_key().filter(|_| travels)
}

/// Returns where a path leads, and how whoever asks there speaks, as far as the path tells.
fn bound_for(session: &Session, exchange: &Exchange, path: &str) -> Option<(Passage, Detected)> {
    let head = session.req_header();
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| head.uri.authority().map(|authority| authority.as_str()));
    let host = host.map(|host| without_port(host).to_ascii_lowercase());
    let passage = Passage::find(&exchange.rules, host.as_deref(), path)?;
    let dialects = &exchange.rules.dialects;
    let path = passage.route().forwarded(path);
    let named = match &passage.route().dialect {
        RouteDialect::Named(name) => dialects.get(name).map(|dialect| dialects.of(dialect, path, None)),
        RouteDialect::Auto => None,
    };
    let detected = named.unwrap_or_else(|| dialects.detect(path, None));
    Some((passage, detected))
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
