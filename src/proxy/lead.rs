//! Addresses that a provider gives its caller to go on at: they lead back to the gateway.
//!
//! In: the head of an answer. SDKs send a file to the address that the answer to an upload's begin tells, poll the one
//! that a long work is to be had at, and follow redirections. One that leads to a target of the route is told anew, as
//! one of this gateway. In the fields that dialects name (`leads`), any other meets the fail mode: what would be sent there
//! nobody here would read; so does one to which a body is to be sent again (307 and 308, RFC 9110, 15.4). Where else a
//! redirection leads is left to the caller, as every link in an answer is.

use http::HeaderValue;
use http::StatusCode;
use http::Uri;
use http::header;
use http::uri::Authority;
use pingora::http::ResponseHeader;
use pingora::proxy::Session;

use super::Stop;
use super::bound_for;
use super::context::Exchange;
use super::path;
use super::reject::Rejection;
use super::request::text_header;
use crate::policy::decision::FailMode;
use crate::policy::inspect::Unreadable;
use crate::policy::route::Upstream;

/// Says by which scheme the caller asked whoever stands before the gateway.
const FORWARDED_SCHEME: header::HeaderName = header::HeaderName::from_static("x-forwarded-proto");

/// Lets the addresses in a head lead back.
///
/// # Errors
/// Fails where one leads past the gateway and the policy does not let that pass.
pub(super) fn back(session: &Session, exchange: &Exchange, head: &mut ResponseHeader) -> Result<(), Stop> {
    let is_open = exchange.passage.as_ref().is_some_and(|passage| passage.policy.fail_mode == FailMode::Open);
    for name in exchange.rules.dialects.leads() {
        let Some(told) = head.headers.get(name) else { continue };
        match (led_back(session, exchange, told), is_open) {
            (Some(address), _) => head.insert_header(name.to_owned(), address)?,
            (None, true) => {}
            (None, false) => return Err(Rejection::UnreadableResponse(Unreadable::Past).into()),
        }
    }
    let told = head.headers.get(header::LOCATION).filter(|_| leads_on(head.status));
    let Some(told) = told else { return Ok(()) };
    match led_back(session, exchange, told) {
        Some(address) => head.insert_header(header::LOCATION, address)?,
        None if is_open || !sends_again(session, head.status) => {}
        None => return Err(Rejection::UnreadableResponse(Unreadable::Past).into()),
    }
    Ok(())
}

/// Tells whether whoever follows a redirection sends what was read here once more.
fn sends_again(session: &Session, status: StatusCode) -> bool {
    let repeats = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    repeats && !session.req_header().method.is_safe()
}

fn leads_on(status: StatusCode) -> bool {
    status.is_redirection() || matches!(status, StatusCode::CREATED | StatusCode::ACCEPTED)
}

/// Returns an address of the gateway for one that a provider told; none, where that leads elsewhere.
fn led_back(session: &Session, exchange: &Exchange, told: &HeaderValue) -> Option<HeaderValue> {
    let uri: Uri = told.to_str().ok()?.parse().ok()?;
    let place = match (uri.authority(), uri.scheme_str()) {
        // Without a host it is an address of whoever was asked; but two slashes begin the name of one.
        (None, _) if told.as_bytes().starts_with(b"//") => return None,
        (None, _) => None,
        (Some(host), Some("https")) => Some(place(true, host)),
        (Some(host), Some("http")) => Some(place(false, host)),
        (Some(_), _) => return None,
    };
    let is_it = |target: &&Upstream| {
        place.as_ref().is_none_or(|place| *place == (target.tls, target.host.clone(), target.port))
    };
    let below =
        |target: &Upstream| uri.path().strip_prefix(&target.base_path).filter(|it| it.starts_with('/'));
    let route = exchange.passage.as_ref()?.route();
    let rest = route.upstreams.iter().filter(is_it).find_map(below)?;
    let prefix = if route.strip_prefix && route.path_prefix != "/" { &route.path_prefix } else { "" };
    let own = format!("{prefix}{rest}");
    let (passage, _) = bound_for(session, exchange, &path::normalise(&own).ok()?)?;
    match &place {
        Some(_) => drop(passage.route().upstreams.iter().find(is_it)?),
        None if passage.route().name != route.name || rest.starts_with("//") => return None,
        None => {}
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let origin = if place.is_some() { origin(session)? } else { String::new() };
    HeaderValue::from_str(&format!("{origin}{own}{query}")).ok()
}

/// Returns where a host is: whether by TLS, its name and its port.
fn place(tls: bool, authority: &Authority) -> (bool, String, u16) {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    (tls, host, authority.port_u16().unwrap_or(if tls { 443 } else { 80 }))
}

/// Returns what the caller calls the gateway.
fn origin(session: &Session) -> Option<String> {
    let head = session.req_header();
    let host = text_header(session, header::HOST).or_else(|| head.uri.authority().map(|it| it.as_str()))?;
    let is_tls = session.digest().is_some_and(|digest| digest.ssl_digest.is_some())
        || text_header(session, FORWARDED_SCHEME) == Some("https");
    let scheme = if is_tls { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}
