//! Calls of agents: what the connection and the headers say goes through the chain of
//! [`crate::access::a2a`], and nothing goes on without its [`Grant`](crate::access::a2a::chain::Grant).
//!
//! The upstream learns who calls and with which capability from the gateway alone: whatever a caller writes
//! into the headers that say so is taken away, on every route.

use std::time::Duration;

use http::HeaderName;
use http::HeaderValue;
use pingora::http::RequestHeader;
use pingora::protocols::tls::SslDigest;
use pingora::proxy::Session;

use super::Gateway;
use super::admit::stranger;
use super::context::Exchange;
use super::context::Passage;
use super::reject::Answer;
use super::reject::Rejection;
use crate::access::a2a::Rules;
use crate::access::a2a::chain::AgentCall;
use crate::access::a2a::chain::Certificate;
use crate::access::a2a::chain::Chain;
use crate::access::a2a::chain::Pending;
use crate::access::a2a::claims;
use crate::access::a2a::claims::Claims;
use crate::access::a2a::denial::Cause;
use crate::access::a2a::denial::Code;
use crate::access::a2a::denial::Denial;
use crate::access::credential::places_of_ours;
use crate::access::limit::UNLIMITED;
use crate::llm::refusal::Refusal;
use crate::policy::decision::CallerId;
use crate::tls::peer::PeerFault;
use crate::tls::peer::PeerIdentity;

/// When to come back for an agent that has as many calls under way as it may.
const BUSY_WAIT: Duration = Duration::from_secs(1);

impl Gateway {
    /// Judges the head of an agent's call.
    pub(super) fn admit_agent(&self, session: &Session, exchange: &mut Exchange) -> Result<(), Rejection> {
        let now = self.clock.now();
        let settings = &exchange.rules.a2a;
        let rules =
            Rules { replay_window_s: settings.replay_window_s, signed_timestamp: settings.signed_timestamp };
        let chain = Chain { guardrails: &self.guardrails, licensing: &self.licensing, rules, now };
        let claims = Claims::of_headers(&session.req_header().headers);
        let admission = chain.admit(self.certificate(session), &claims);
        exchange.caller = admission.call.agent.clone().map(CallerId::new);
        exchange.limit = admission.limit;
        exchange.agent = Some(admission.call);
        match admission.verdict {
            Ok(pending) => {
                self.ensure_trusted(exchange)?;
                self.seat_agent(exchange)?;
                exchange.pending = Some(pending);
                Ok(())
            }
            Err(denial) => Err(self.denied(session, exchange, denial)),
        }
    }

    /// Takes a seat for a call; an agent without a limit needs none.
    fn seat_agent(&self, exchange: &mut Exchange) -> Result<(), Rejection> {
        let max = exchange.rules.limits.concurrent_requests_per_caller;
        let is_limited = max > 0 && exchange.limit.is_some_and(|limit| limit.limit != UNLIMITED);
        let Some(call) = exchange.agent.as_mut().filter(|_| is_limited) else { return Ok(()) };
        let name = format!("agent:{}", call.agent.as_deref().unwrap_or_default());
        exchange.seat = self.concurrency.enter(&name, max);
        if exchange.seat.is_some() {
            return Ok(());
        }
        self.telemetry.metrics.rate_limited();
        let retry_after = Some(BUSY_WAIT);
        let denial = deny(call, Code::RateLimited).because(Cause::TooManyAtOnce);
        call.cause = denial.cause;
        Err(Denial { retry_after, ..denial }.into())
    }

    /// Checks the signature over the body, which went through `pending` as it came, on routes for agents.
    pub(super) async fn check_integrity(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        pending: Option<Pending>,
    ) -> Result<(), Rejection> {
        if !passage.route().is_for_agents() {
            return Ok(());
        }
        let pending = pending.ok_or(Rejection::Internal)?;
        let verdict = match pending.complete(&self.guardrails, self.clock.now()) {
            Ok(grant) => grant.confirmed(&self.guardrails, &exchange.patience).await,
            Err(denial) => Err(denial),
        };
        let call = exchange.agent.get_or_insert_default();
        match verdict {
            Ok(grant) => {
                call.is_granted = true;
                exchange.grant = Some(grant);
                Ok(())
            }
            Err(denial) => {
                (call.denied, call.cause) = (Some(denial.code), denial.cause);
                Err(denial.into())
            }
        }
    }

    /// Knocking is paid by the address where no agent can be charged for it, as on the management plane.
    fn denied(&self, session: &Session, exchange: &mut Exchange, denial: Denial) -> Rejection {
        if denial.code == Code::RateLimited {
            self.telemetry.metrics.rate_limited();
        }
        if exchange.limit.is_some() {
            return denial.into();
        }
        let payer = stranger(session);
        match self.take(exchange, &payer, self.licensing.tier(self.clock.now())) {
            Err(Rejection::RateLimited { retry_after }) => {
                let code = Code::RateLimited;
                let call = exchange.agent.get_or_insert_default();
                (call.denied, call.cause) = (Some(code), None);
                Denial { code, retry_after: Some(retry_after), cause: None, ..denial }.into()
            }
            Ok(()) | Err(_) => denial.into(),
        }
    }

    /// Returns what the caller's certificate is worth at this moment.
    pub(super) fn certificate(&self, session: &Session) -> Certificate {
        self.certificate_over(session.digest().and_then(|digest| digest.ssl_digest.as_deref()))
    }

    /// Returns what a connection says of who is at its other end.
    pub(super) fn certificate_over(&self, connection: Option<&SslDigest>) -> Certificate {
        let peer = PeerIdentity::of(connection).ok_or(PeerFault::Absent);
        match peer.and_then(|peer| peer.verified(self.clock.now())) {
            Ok(name) => Certificate::Named(name),
            // Without an authority, nobody was asked for one.
            Err(PeerFault::Absent) if !self.guardrails.vouching.verifies() => Certificate::Unverifiable,
            Err(PeerFault::Absent) => Certificate::Absent,
            Err(PeerFault::Unverifiable) => Certificate::Unverifiable,
            Err(PeerFault::Nameless) => Certificate::Nameless,
            Err(PeerFault::Refused) => Certificate::Refused,
        }
    }
}

/// Notes why a call is denied, and returns the denial.
pub(super) fn deny(call: &mut AgentCall, code: Code) -> Denial {
    call.denied = Some(code);
    Denial { agent: call.agent.clone(), capability: call.capability.clone(), ..Denial::of(code) }
}

/// Takes away what a caller writes in the gateway's own name.
pub(super) fn strip_reserved(head: &mut RequestHeader) {
    let reserved: Vec<HeaderName> =
        head.headers.keys().filter(|name| claims::is_reserved(name.as_str())).cloned().collect();
    for name in reserved {
        head.remove_header(&name);
    }
}

/// Tells the upstream which agent calls, and with which capability.
///
/// # Errors
/// The route is for agents, and the chain has not let the call pass.
pub(super) fn introduce(
    head: &mut RequestHeader,
    exchange: &Exchange,
    passage: &Passage,
) -> Result<(), Rejection> {
    if !passage.route().is_for_agents() {
        return Ok(());
    }
    // What an agent shows of ours beside its certificate is no other agent's business.
    for place in places_of_ours(&head.headers) {
        head.remove_header(place);
    }
    let grant = exchange.grant.as_ref().ok_or(Rejection::Internal)?;
    for (name, value) in [(claims::AGENT_ID, grant.agent()), (claims::CAPABILITY, grant.capability())] {
        let value = HeaderValue::from_str(value).map_err(|_| Rejection::Internal)?;
        head.insert_header(name, value).map_err(|_| Rejection::Internal)?;
    }
    Ok(())
}

/// Returns a defect of the gateway as agents know it, on routes for them.
pub(super) fn internal_error(rejection: &Rejection, exchange: &mut Exchange) -> Option<Rejection> {
    let is_for_agents = exchange.passage.as_ref().is_some_and(|passage| passage.route().is_for_agents());
    if !is_for_agents || !matches!(rejection, Rejection::Internal) {
        return None;
    }
    let call = exchange.agent.get_or_insert_default();
    call.is_granted = false;
    Some(Rejection::A2a(deny(call, Code::InternalError)))
}

/// Returns the body of a denial.
pub(super) fn body(answer: &Answer) -> Vec<u8> {
    written(answer.code, &answer.message)
}

/// Returns the body of a refusal that is no denial of the guardrails, in the same shape.
pub(super) fn body_of_other(refusal: &Refusal, call: Option<&AgentCall>) -> Vec<u8> {
    let agent = call.and_then(|call| call.agent.as_deref());
    let capability = call.and_then(|call| call.capability.as_deref());
    let subject = Denial::subject(agent, capability);
    written(refusal.code, &format!("{subject}: {}", refusal.message))
}

fn written(code: &str, message: &str) -> Vec<u8> {
    serde_json::json!({ "code": code, "message": message }).to_string().into_bytes()
}
