//! Every way an exchange is refused, and the answer the caller gets: the one place of the data plane
//! that knows status codes.
//!
//! A refusal is written in the shape the caller's SDK raises; a block is 403, because the SDKs send a
//! 409, 429 or 5xx again. What went wrong inside is never told outside: see `Rejection::message`.

use std::time::Duration;

use http::StatusCode;

use crate::access::a2a::denial::Code;
use crate::access::a2a::denial::Denial;
use crate::access::budget::BudgetFault;
use crate::access::credential::CredentialFault;
use crate::access::session::shared::Untold;
use crate::admin::head::HeadFault;
use crate::policy::inspect::Unreadable;
use crate::proxy::coding::CodingFault;
use crate::proxy::gate::GateFault;
use crate::proxy::path::PathFault;
use crate::proxy::scope::ScopeRefusal;
use crate::proxy::upstream::Unswitched;
use crate::proxy::upstream::UpstreamFault;

/// Why an exchange was refused.
#[derive(Debug)]
pub enum Rejection {
    /// The request head has no single meaning.
    Head(HeadFault),
    /// The path has no single meaning.
    Path(PathFault),
    /// No route leads there.
    NoRoute,
    /// The request presents none of our keys, on a route that takes them.
    NoKey,
    /// It presents one in more than one way, or where it does not belong.
    Credential(CredentialFault),
    /// The key it presents is unknown, revoked or expired.
    UnknownKey,
    /// Whether the session that its token ends with has ended nobody can tell.
    Untold(Untold),
    /// The key it presented counted for the route when it came, and does no more.
    Withdrawn,
    /// Its key may not use the route.
    Forbidden,
    /// Its key may not use a model or a tool.
    Scope(ScopeRefusal),
    /// The caller has as many requests under way as it may.
    TooManyAtOnce,
    /// The route's own key for the provider cannot be had.
    NoProviderKey,
    /// The route does not carry upgraded connections.
    Upgrade,
    /// The provider did not switch protocols.
    UpgradeFailed(Unswitched),
    /// The guardrails deny an agent's call.
    A2a(Denial),
    /// The caller sends too much, too often.
    RateLimited {
        /// When to come back.
        retry_after: Duration,
    },
    /// The key's budget does not pay for it.
    Budget(BudgetFault),
    /// The body was not taken.
    Gate(GateFault),
    /// The body's coding cannot be undone.
    Coding(CodingFault),
    /// A body could not be inspected, and the policy fails closed.
    UnreadableRequest(Unreadable),
    /// The same, on the way back.
    UnreadableResponse(Unreadable),
    /// The policy blocks the request.
    RequestBlocked,
    /// The policy changes the request, which its caller's signature forbids.
    SignedRequest,
    /// The request's body is encoded, and leaves decoded, which its caller's signature forbids.
    SignedCoding,
    /// The policy blocks the response.
    ResponseBlocked,
    /// The provider gave no usable answer.
    Upstream(UpstreamFault),
    /// The audit log cannot be written, and the configuration refuses traffic then.
    Unrecorded,
    /// A defect of the gateway.
    Internal,
}

/// The code of a provider that agreed to another protocol, and did not change to it as it should.
pub(super) const UPGRADE_FAILED: &str = "upgrade_failed";
/// The code of a provider that took too long.
pub(super) const UPSTREAM_TIMEOUT: &str = "upstream_timeout";
/// The code of a provider that gave no usable answer.
pub(super) const UPSTREAM_UNREACHABLE: &str = "upstream_unreachable";
/// A caller who has to wait longer than SDKs do is told not to try again by itself.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(60);

/// What the caller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// What happened, in one word for programs.
    pub code: &'static str,
    /// What happened, for people.
    pub message: String,
    /// When to come back, in seconds.
    pub retry_after_s: Option<u64>,
    /// Whether the same request may fare better when it is sent again.
    pub may_retry: bool,
}

impl Rejection {
    /// Returns what the caller is told.
    pub fn answer(&self) -> Answer {
        let (status, code) = self.status_and_code();
        let (retry_after_s, may_retry) = (self.retry_after_s(), self.may_retry());
        Answer { status, code, message: self.message(), retry_after_s, may_retry }
    }

    /// Returns why a response is refused whose coding cannot be undone.
    pub(super) fn of_response(fault: CodingFault) -> Self {
        match fault {
            CodingFault::Room(fault) => Self::Gate(fault),
            CodingFault::Unknown | CodingFault::Broken | CodingFault::Bomb => {
                Self::UnreadableResponse(Unreadable::Coding)
            }
        }
    }

    /// Tells whether the policy refuses what was said, or what nobody could read.
    pub fn is_block(&self) -> bool {
        matches!(
            self,
            Self::RequestBlocked
                | Self::ResponseBlocked
                | Self::UnreadableRequest(_)
                | Self::UnreadableResponse(_)
        )
    }

    /// Tells whether the gateway refuses, and not the provider that fails: to the audit log it is denied.
    pub fn is_denial(&self) -> bool {
        !matches!(self, Self::Upstream(_) | Self::UpgradeFailed(_))
    }

    /// Tells whether somebody was refused at the door, of whom no more is known than that: where such come without
    /// end, counting them has to do.
    pub fn is_knock(&self, is_known: bool) -> bool {
        let is_of_an_agent = matches!(self, Self::A2a(it) if !is_known || it.code == Code::RateLimited);
        is_of_an_agent
            || matches!(
                self,
                Self::Head(_)
                    | Self::Path(_)
                    | Self::NoRoute
                    | Self::NoKey
                    | Self::Credential(_)
                    | Self::UnknownKey
                    | Self::Untold(_)
                    | Self::TooManyAtOnce
                    | Self::RateLimited { .. }
            )
    }

    /// Tells whether nobody can say where the request ends: its head has two meanings, or its body broke off or is broken
    /// (RFC 9112, sections 6.3 and 7.1). Its connection ends with it.
    pub fn leaves_framing_open(&self) -> bool {
        matches!(self, Self::Head(_) | Self::Gate(GateFault::Broken(_) | GateFault::Slow { .. }))
    }

    /// Tells what passes by itself from what the same request would meet again.
    fn may_retry(&self) -> bool {
        match self {
            Self::RateLimited { retry_after } => *retry_after <= RETRY_WAIT_MAX,
            Self::A2a(denial) => denial.retry_after.is_some_and(|wait| wait <= RETRY_WAIT_MAX),
            Self::Budget(fault) => matches!(fault, BudgetFault::Reserved | BudgetFault::Away),
            Self::Gate(fault) => !matches!(fault, GateFault::TooLarge { .. }),
            Self::Upstream(_)
            | Self::TooManyAtOnce
            | Self::UpgradeFailed(_)
            | Self::Unrecorded
            | Self::Untold(_)
            | Self::NoProviderKey
            | Self::Internal => true,
            Self::Head(_)
            | Self::Path(_)
            | Self::NoRoute
            | Self::NoKey
            | Self::Credential(_)
            | Self::UnknownKey
            | Self::Withdrawn
            | Self::Forbidden
            | Self::Scope(_)
            | Self::Upgrade
            | Self::Coding(_)
            | Self::UnreadableRequest(_)
            | Self::UnreadableResponse(_)
            | Self::RequestBlocked
            | Self::SignedRequest
            | Self::SignedCoding
            | Self::ResponseBlocked => false,
        }
    }

    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Head(HeadFault::TooLarge) => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "request_head_too_large")
            }
            Self::Head(HeadFault::Method) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::Head(HeadFault::Expectation) => (StatusCode::EXPECTATION_FAILED, "expectation_failed"),
            Self::Head(_) => (StatusCode::BAD_REQUEST, "malformed_request"),
            Self::Path(_) => (StatusCode::BAD_REQUEST, "malformed_path"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "no_route"),
            Self::NoKey | Self::UnknownKey | Self::Withdrawn => (StatusCode::UNAUTHORIZED, "invalid_api_key"),
            Self::Credential(CredentialFault::Malformed | CredentialFault::Ours) => {
                (StatusCode::UNAUTHORIZED, "invalid_api_key")
            }
            Self::Credential(CredentialFault::Ambiguous) => (StatusCode::BAD_REQUEST, "ambiguous_credential"),
            Self::Credential(CredentialFault::InQuery) => (StatusCode::BAD_REQUEST, "credential_in_query"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "route_forbidden"),
            Self::Scope(ScopeRefusal::Tool(_)) => (StatusCode::FORBIDDEN, "tool_forbidden"),
            Self::Scope(_) => (StatusCode::FORBIDDEN, "model_forbidden"),
            Self::TooManyAtOnce => (StatusCode::TOO_MANY_REQUESTS, "too_many_at_once"),
            Self::NoProviderKey => (StatusCode::SERVICE_UNAVAILABLE, "provider_key_unavailable"),
            Self::Upgrade => (StatusCode::FORBIDDEN, "upgrade_refused"),
            Self::UpgradeFailed(told) => (told.status.unwrap_or(StatusCode::BAD_GATEWAY), UPGRADE_FAILED),
            Self::RateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::A2a(denial) => {
                let status = StatusCode::from_u16(denial.code.status());
                (status.unwrap_or(StatusCode::FORBIDDEN), denial.code.as_str())
            }
            Self::Budget(BudgetFault::Exhausted { .. }) => (StatusCode::TOO_MANY_REQUESTS, "budget_exceeded"),
            Self::Budget(BudgetFault::Reserved) => (StatusCode::TOO_MANY_REQUESTS, "budget_reserved"),
            Self::Budget(BudgetFault::Away) => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::Budget(BudgetFault::Unpriced) => (StatusCode::FORBIDDEN, "model_unpriced"),
            Self::Budget(BudgetFault::Unmetered) => (StatusCode::FORBIDDEN, "use_unmetered"),
            Self::Gate(GateFault::TooLarge { .. }) => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::Gate(GateFault::Overloaded) | Self::Coding(CodingFault::Room(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "overloaded")
            }
            Self::Gate(GateFault::Slow { .. }) => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::Gate(GateFault::Broken(_)) => (StatusCode::BAD_REQUEST, "malformed_body"),
            Self::Coding(CodingFault::Unknown) | Self::SignedCoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_coding")
            }
            Self::Coding(CodingFault::Broken) => (StatusCode::BAD_REQUEST, "malformed_body"),
            Self::Coding(CodingFault::Bomb) => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::UnreadableRequest(Unreadable::TooLarge(_)) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large")
            }
            Self::UnreadableRequest(_) => (StatusCode::BAD_REQUEST, "unreadable_content"),
            Self::UnreadableResponse(_) => (StatusCode::BAD_GATEWAY, "unreadable_response"),
            Self::SignedRequest => (StatusCode::FORBIDDEN, "signed_content"),
            Self::RequestBlocked | Self::ResponseBlocked => (StatusCode::FORBIDDEN, "content_blocked"),
            Self::Upstream(UpstreamFault::Slow) => (StatusCode::GATEWAY_TIMEOUT, UPSTREAM_TIMEOUT),
            Self::Upstream(_) => (StatusCode::BAD_GATEWAY, UPSTREAM_UNREACHABLE),
            Self::Unrecorded => (StatusCode::SERVICE_UNAVAILABLE, "audit_unavailable"),
            Self::Untold(_) => (StatusCode::SERVICE_UNAVAILABLE, "session_unavailable"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Head(fault) => fault.to_string(),
            Self::Path(fault) => fault.to_string(),
            Self::NoRoute => "no route of this gateway leads there".to_owned(),
            Self::NoKey => "no API key was given".to_owned(),
            Self::Credential(fault) => fault.to_string(),
            Self::UnknownKey => "the API key or token is unknown, revoked or expired".to_owned(),
            Self::Untold(fault) => fault.to_string(),
            Self::Withdrawn => "the API key or token was revoked, has expired or has lost the route meanwhile".to_owned(),
            Self::Forbidden => "this API key may not use this route".to_owned(),
            Self::Scope(refusal) => refusal.to_string(),
            Self::TooManyAtOnce => "too many requests of this caller are under way".to_owned(),
            Self::NoProviderKey => "the route cannot reach its provider at the moment".to_owned(),
            Self::Upgrade => "this route does not carry upgraded connections".to_owned(),
            Self::UpgradeFailed(told) => match told.status {
                Some(status) => format!("the upstream did not switch protocols: it answered {}", status.as_u16()),
                None => "the upstream did not switch protocols".to_owned(),
            },
            Self::A2a(denial) => denial.to_string(),
            Self::RateLimited { .. } => "too many requests, slow down".to_owned(),
            Self::Budget(fault) => fault.to_string(),
            Self::Gate(fault) => fault.to_string(),
            Self::Coding(fault) => fault.to_string(),
            Self::UnreadableRequest(fault) => format!("the request cannot be inspected: {fault}"),
            Self::UnreadableResponse(_) => "the provider's response cannot be inspected".to_owned(),
            Self::RequestBlocked => "the request was blocked by a security policy".to_owned(),
            Self::SignedRequest => "a security policy redacts this request, but its signature covers the body: it cannot be changed".to_owned(),
            Self::SignedCoding => "the request's signature covers its encoded body, which would leave decoded: sign and send it without a content coding".to_owned(),
            Self::ResponseBlocked => "the response was blocked by a security policy".to_owned(),
            Self::Upstream(fault) => fault.to_string(),
            Self::Unrecorded => "the gateway cannot record exchanges at the moment".to_owned(),
            Self::Internal => "the gateway failed".to_owned(),
        }
    }

    fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::RateLimited { retry_after } => Some(retry_after.as_secs().max(1)),
            Self::UpgradeFailed(told) => told.retry_after_s,
            Self::A2a(denial) => denial.retry_after.map(|wait| wait.as_secs().max(1)),
            Self::Budget(fault) => fault.retry_after().map(|wait| wait.as_millis().div_ceil(1000) as u64),
            Self::Gate(GateFault::Overloaded) | Self::Unrecorded | Self::Untold(_) | Self::TooManyAtOnce => {
                Some(1)
            }
            _ => None,
        }
    }
}

macro_rules! from {
    ($($fault:ty => $variant:ident,)*) => {$(
        impl From<$fault> for Rejection {
            fn from(fault: $fault) -> Self {
                Self::$variant(fault)
            }
        }
    )*};
}

from! {
    Denial => A2a,
    BudgetFault => Budget,
    HeadFault => Head,
    Untold => Untold,
    PathFault => Path,
    GateFault => Gate,
    UpstreamFault => Upstream,
}

impl From<CodingFault> for Rejection {
    fn from(fault: CodingFault) -> Self {
        match fault {
            CodingFault::Room(fault) => Self::Gate(fault),
            fault => Self::Coding(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_security_policy_decided_is_not_worth_a_second_try() {
        let cases = [
            (Rejection::RequestBlocked, 403, false),
            (Rejection::SignedRequest, 403, false),
            (Rejection::SignedCoding, 415, false),
            (Rejection::ResponseBlocked, 403, false),
            (Rejection::UnreadableResponse(Unreadable::TooLarge(1)), 502, false),
            (Rejection::RateLimited { retry_after: Duration::from_secs(2) }, 429, true),
            (Rejection::RateLimited { retry_after: Duration::from_secs(600) }, 429, false),
            (Rejection::Budget(BudgetFault::Reserved), 429, true),
            (Rejection::Budget(BudgetFault::Away), 429, true),
            (Rejection::Budget(BudgetFault::Unpriced), 403, false),
            (Rejection::Budget(BudgetFault::Unmetered), 403, false),
            (Rejection::Gate(GateFault::Overloaded), 503, true),
            (CodingFault::Room(GateFault::Overloaded).into(), 503, true),
            (Rejection::of_response(CodingFault::Room(GateFault::Overloaded)), 503, true),
            (Rejection::of_response(CodingFault::Bomb), 502, false),
            (Rejection::Upstream(UpstreamFault::Slow), 504, true),
        ];
        for (rejection, status, may_retry) in cases {
            let answer = rejection.answer();
            assert_eq!((answer.status.as_u16(), answer.may_retry), (status, may_retry), "{rejection:?}");
        }
    }
}
