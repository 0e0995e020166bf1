//! What every call passes before and after its handler.
//!
//! The order is fixed: host and origin, path (404), method (405), credential (401), permission (403),
//! quota (429), handler. What leads to no row costs what any other call does, but where all rows of its path are
//! exempt. Every answer carries the three rate-limit headers and the request id, errors included; a panic of a
//! handler is a 500, counted, and the process lives.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use axum::routing::any;
use bytes::Bytes;
use futures_util::FutureExt;
use http::HeaderMap;
use http::HeaderValue;
use http::Method;
use http::Request;
use http::Response;
use http::header;
use http::request::Parts;
use http_body_util::BodyExt;

use super::Office;
use super::Plane;
use super::adapter::PeerAddress;
use super::adapter::ReadFault;
use super::call::Call;
use super::error::ApiError;
use super::guard;
use super::journal;
use super::routes::Origins;
use super::routes::Quota;
use super::routes::Route;
use super::routes::routes;
use super::sign_in::OwnSession;
use crate::access::concurrency::Seat;
use crate::access::credential;
use crate::access::credential::CredentialFault;
use crate::access::credential::OWN_PLACES;
use crate::access::credential::Principal;
use crate::access::limit::LimitState;
use crate::access::patience::Patience;
use crate::access::place;
use crate::access::session::shared::Untold;
use crate::access::tier::Tier;
use crate::telemetry::metrics::Finished;

/// What calls are counted under.
const LISTENER: &str = "admin";
const NO_ROUTE: &str = "none";
const FORWARDED_FOR: &str = "x-forwarded-for";
const REQUEST_ID: &str = "x-request-id";
const REQUEST_ID_BYTES_MAX: usize = 128;
/// For how long browsers call this host over TLS alone, once it was served so: a year, and no hosts below it.
const OVER_TLS: &str = "max-age=31536000";
/// The longest parameter of a path, in bytes.
pub(super) const PATH_PARAMETER_BYTES_MAX: usize = 1024;

/// The rows of one path.
type Rows = Arc<Vec<Route>>;

/// A call whose route is known.
struct Arrival {
    office: Arc<Office>,
    parts: Parts,
    body: Bytes,
    path: Result<BTreeMap<String, String>, ApiError>,
    request_id: String,
    address: Option<IpAddr>,
    patience: Patience,
    session: Result<Option<OwnSession>, Untold>,
}

/// Whose bucket pays for a call.
struct Payer {
    name: String,
    tier: Tier,
}

/// Returns the contract as a router for one listener.
pub fn router(office: Arc<Office>, plane: Plane) -> Router {
    router_of(office, plane, routes())
}

/// Returns a contract as a router for one listener.
pub fn router_of(office: Arc<Office>, plane: Plane, contract: Vec<Route>) -> Router {
    let mut by_path: BTreeMap<&'static str, Vec<Route>> = BTreeMap::new();
    for route in contract {
        by_path.entry(route.path).or_default().push(route);
    }
    let mut router = Router::new();
    for (path, rows) in by_path {
        let (rows, office) = (Rows::new(rows), office.clone());
        let method_router =
            any(move |params: Result<RawPathParams, RawPathParamsRejection>, request: Request<Body>| {
                serve(office.clone(), plane, rows.clone(), parameters(params), request)
            });
        router = router.route(path, method_router);
    }
    router.fallback(move |request: Request<Body>| {
        serve(office.clone(), plane, Rows::default(), Ok(BTreeMap::new()), request)
    })
}

/// Returns who calls, as far as the connection tells, or a proxy whose word counts.
fn address(office: &Office, plane: Plane, parts: &Parts) -> Option<IpAddr> {
    let peer = parts.extensions.get::<PeerAddress>().and_then(|peer| peer.0)?;
    if plane == Plane::Data {
        // What stands before that plane is not what stands before this one.
        return Some(peer);
    }
    // What cannot be read is a hop that nobody knows: what stands before it counts for nothing.
    let lines = parts.headers.get_all(FORWARDED_FOR).iter().map(|line| line.to_str().unwrap_or_default());
    Some(place::client(peer, lines.flat_map(|line| line.split(',')), &office.facts.trusted_proxies))
}

async fn serve(
    office: Arc<Office>,
    plane: Plane,
    rows: Rows,
    path: Result<BTreeMap<String, String>, ApiError>,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    // The adapter has read and bounded the body already.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let request_id = request_id(&office, &parts.headers);
    let address = address(&office, plane, &parts);
    // Whoever shows a key of their own does not call with a session. On the data plane nobody does: browsers send
    // cookies to every port of a host, and a page that a provider answered with would be of that plane's origin.
    let shows_key = credential::presented(&parts.headers, None, &OWN_PLACES) != Ok(None);
    let patience = Patience::default();
    let session = match plane {
        Plane::Management if !shows_key => office.own_session(&parts.headers, &patience).await,
        Plane::Management | Plane::Data => Ok(None),
    };
    let arrival = Arrival { office, parts, body, path, request_id, address, patience, session };
    let host = {
        let (office, parts) = (&arrival.office, &arrival.parts);
        let row = rows.iter().find(|route| route.answers(&parts.method));
        let origins = row.map_or(Origins::Own, |row| row.origins);
        let public = office.sign_in.public.as_ref();
        guard::check(&office.facts, public, plane, &parts.method, &parts.headers, origins)
    };
    let request_id = arrival.request_id.clone();
    let office = arrival.office.clone();
    let began = office.clock.monotonic();
    let unread =
        arrival.parts.extensions.get::<Arc<ReadFault>>().map(|fault| ApiError::Unread(Arc::clone(fault)));
    let host = unread.map_or(host, Err);
    let (answer, limit) = match host.map(|()| choose(&rows, &arrival.parts.method)) {
        Ok(Ok(route)) => arrival.answer(route).await,
        Ok(Err(error)) => arrival.lost(&rows, error).await,
        Err(error) => (error.into_response(), office.peek(&arrival.stranger())),
    };
    // The data plane counts its own paths itself.
    if plane == Plane::Management {
        let route = rows.first().map_or(NO_ROUTE, |row| row.path);
        let took = office.clock.monotonic().saturating_sub(began);
        let code = answer.status().as_u16();
        let provider = NO_ROUTE;
        office.telemetry.metrics.finished(Finished {
            listener: LISTENER,
            provider,
            route,
            code,
            took,
            example: None,
        });
    }
    let mut answer = dressed(answer, &limit, &request_id);
    // Over plain HTTP it says nothing (RFC 6797, section 7.2), and the data plane is not for browsers.
    if plane == Plane::Management && office.facts.is_secure {
        answer.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(OVER_TLS));
    }
    answer
}

/// Returns the row that answers a method.
fn choose<'a>(rows: &'a Rows, method: &Method) -> Result<&'a Route, ApiError> {
    if rows.is_empty() {
        return Err(ApiError::NotFound("there is no such path".to_owned()));
    }
    rows.iter().find(|route| route.answers(method)).ok_or_else(|| {
        let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let allow = known.into_iter().filter(|method| rows.iter().any(|route| route.answers(method)));
        ApiError::MethodNotAllowed { allow: allow.collect() }
    })
}

impl Arrival {
    /// Checks the caller, then lets the handler answer; returns what is left of the caller's quota too.
    async fn answer(self, route: &Route) -> (Response<Body>, LimitState) {
        let now = self.office.clock.now();
        let principal = self.principal().await;
        let known = principal.as_ref().ok().cloned().flatten();
        let payer = self.payer(known.as_ref());
        let admitted = route.admit(principal, self.office.facts.public_metrics);
        let principal = match admitted {
            Ok(principal) => principal,
            // Nobody knocks: it is we who cannot tell.
            Err(error @ ApiError::Untold(_)) => return (error.into_response(), self.office.peek(&payer)),
            Err(error) => return self.turned_away(&payer, known.as_ref(), route, error),
        };
        let Some(_seat) = self.seat(route, &payer) else {
            self.office.telemetry.metrics.rate_limited();
            return (ApiError::TooManyAtOnce.into_response(), self.office.peek(&payer));
        };
        let limit = match route.quota {
            Quota::Exempt => self.office.peek(&payer),
            Quota::Knock if principal.is_none() => self.office.knock(&payer),
            Quota::Counted | Quota::Knock => self.office.buckets.take(&payer.name, payer.tier, now),
        };
        if route.quota != Quota::Exempt && !limit.allowed {
            return self.limited(limit);
        }
        let response = match self.into_call(route, principal) {
            Ok(call) => handled(route, call).await,
            Err(error) => error.into_response(),
        };
        (response, limit)
    }

    /// Refuses a call that leads to no row, at the cost of any other.
    async fn lost(self, rows: &Rows, error: ApiError) -> (Response<Body>, LimitState) {
        let known = self.principal().await.ok().flatten();
        let payer = self.payer(known.as_ref());
        if !rows.is_empty() && rows.iter().all(|row| row.quota == Quota::Exempt) {
            return (error.into_response(), self.office.peek(&payer));
        }
        let limit = self.office.buckets.take(&payer.name, payer.tier, self.office.clock.now());
        if limit.allowed { (error.into_response(), limit) } else { self.limited(limit) }
    }

    /// Refuses a call whose payer has nothing left.
    fn limited(&self, limit: LimitState) -> (Response<Body>, LimitState) {
        self.office.telemetry.metrics.rate_limited();
        let error = ApiError::RateLimited { retry_after_s: limit.retry_after_s };
        (error.into_response(), limit)
    }

    /// Returns whom the call's credential stands for.
    async fn principal(&self) -> Result<Option<Principal>, ApiError> {
        let (headers, query) = (&self.parts.headers, self.parts.uri.query());
        let given = credential::presented(headers, query, &OWN_PLACES).map_err(|fault| match fault {
            CredentialFault::Ambiguous => ApiError::AmbiguousCredential,
            CredentialFault::InQuery => ApiError::CredentialInQuery,
            CredentialFault::Malformed | CredentialFault::Ours => ApiError::Unauthenticated,
        })?;
        let now = self.office.clock.now();
        match (given, &self.session) {
            (Some(given), _) => {
                let authenticator = &self.office.authenticator;
                let known = authenticator.authenticate(&given.credential, now, &self.patience).await?;
                known.ok_or(ApiError::Unauthenticated).map(Some)
            }
            (None, Ok(Some(session))) => {
                self.office.session_holder(session, &self.parts.method, &self.parts.headers)
            }
            (None, Ok(None)) => Ok(None),
            (None, Err(untold)) => Err((*untold).into()),
        }
    }

    /// Returns a seat among the payer's calls under way, where it needs one; `None` where all are taken.
    fn seat(&self, route: &Route, payer: &Payer) -> Option<Option<Seat>> {
        let max = self.office.reloader.handle().load().limits.concurrent_requests_per_caller;
        let is_free = route.quota == Quota::Exempt || self.office.buckets.quota(payer.tier).is_none();
        if max == 0 || is_free {
            Some(None)
        } else {
            self.office.concurrency.enter(&payer.name, max).map(Some)
        }
    }

    /// Records a refusal as long as the caller has quota, so that nobody fills the log with knocking.
    fn turned_away(
        &self,
        payer: &Payer,
        known: Option<&Principal>,
        route: &Route,
        error: ApiError,
    ) -> (Response<Body>, LimitState) {
        let limit = self.office.buckets.take(&payer.name, payer.tier, self.office.clock.now());
        if limit.allowed && error.status().as_u16() != 400 {
            let actor = known.map(Principal::id);
            let event = journal::denied(actor, route.path, &self.request_id, &error);
            self.office.record_refusal(&payer.name, event);
        }
        (error.into_response(), limit)
    }

    /// Returns who pays: whoever is known, or else the client's address.
    fn payer(&self, known: Option<&Principal>) -> Payer {
        known.map_or_else(|| self.stranger(), |known| self.office.payer(known))
    }

    /// Returns who pays where no credential counts: the client's address.
    fn stranger(&self) -> Payer {
        Payer { name: place::stranger(self.address), tier: self.office.tier() }
    }

    fn into_call(self, route: &Route, principal: Option<Principal>) -> Result<Call, ApiError> {
        // What nobody reads would seem to count: `dry_run`, above all.
        if route.takes_no_query() && self.parts.uri.query().is_some_and(|query| !query.is_empty()) {
            return Err(ApiError::Invalid("the query is wrong: this path takes no parameters".to_owned()));
        }
        Ok(Call {
            office: self.office,
            principal,
            is_untold: self.session.is_err(),
            session: self.session.unwrap_or_default(),
            address: self.address,
            patience: self.patience,
            path: self.path?,
            route: route.path,
            query: self.parts.uri.query().unwrap_or_default().to_owned(),
            headers: self.parts.headers,
            body: self.body,
            request_id: self.request_id,
        })
    }
}

impl Office {
    fn payer(&self, principal: &Principal) -> Payer {
        let tier = principal.tier.min(self.tier());
        Payer { name: principal.payer(), tier }
    }

    /// Takes a token for a stranger who asks to be let in, where there is a finite quota even if the tier has none:
    /// each such call may cost us a hash, or the identity provider a question.
    fn knock(&self, payer: &Payer) -> LimitState {
        let now = self.clock.now();
        let knock = self.knocks.take(&payer.name, Tier::Professional, now);
        if knock.allowed { self.buckets.take(&payer.name, payer.tier, now) } else { knock }
    }

    fn peek(&self, payer: &Payer) -> LimitState {
        self.buckets.peek(&payer.name, payer.tier, self.clock.now())
    }
}

async fn handled(route: &Route, call: Call) -> Response<Body> {
    let office = call.office.clone();
    let request_id = call.request_id.clone();
    let unconfirmed = (route.method != Method::GET).then(|| call.unconfirmed());
    // What a handler leaves half-done when it unwinds is behind locks that do not poison, or in the store.
    let outcome = AssertUnwindSafe(async { (route.handler)(call).await }).catch_unwind().await;
    let answer = outcome.unwrap_or_else(|panic: Box<dyn Any + Send>| {
        drop(panic);
        office.telemetry.metrics.panicked();
        tracing::error!(request_id, path = route.path, "a management call panicked");
        Err(ApiError::Internal)
    });
    // The change may be in force, and nothing else says so.
    let has_failed = matches!(answer, Err(ApiError::Unavailable)) && !office.is_written();
    if let Some(event) = unconfirmed.filter(|_| has_failed) {
        office.record(event).await;
    }
    answer.unwrap_or_else(ApiError::into_response)
}

fn parameters(
    params: Result<RawPathParams, RawPathParamsRejection>,
) -> Result<BTreeMap<String, String>, ApiError> {
    let malformed = || ApiError::Invalid("a parameter of the path is malformed".to_owned());
    let params = params.map_err(|_| malformed())?;
    let pairs = params.iter().map(|(name, value)| match value.len() {
        0..=PATH_PARAMETER_BYTES_MAX => Ok((name.to_owned(), value.to_owned())),
        _ => Err(malformed()),
    });
    pairs.collect()
}

/// Returns the caller's request id where it is sane, or a new one.
fn request_id(office: &Office, headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_sane = |id: &&str| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    given.filter(is_sane).map_or_else(|| office.new_id(), str::to_owned)
}

impl Office {
    /// Returns the deployment's tier at this moment.
    pub fn tier(&self) -> Tier {
        self.licensing.tier(self.clock.now())
    }

    /// Returns a new identifier.
    pub fn new_id(&self) -> String {
        self.ids.next(self.clock.now().as_millisecond()).to_string()
    }
}

/// Puts on an answer what every answer wears.
fn dressed(mut answer: Response<Body>, limit: &LimitState, request_id: &str) -> Response<Body> {
    let headers = answer.headers_mut();
    headers.insert("x-ratelimit-limit", HeaderValue::from(limit.limit));
    headers.insert("x-ratelimit-remaining", HeaderValue::from(limit.remaining));
    headers.insert("x-ratelimit-reset", HeaderValue::from(limit.reset_unix));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, value);
    }
    answer
}
