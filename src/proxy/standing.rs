//! Whether whom an answer is for may still have it: asked while it leaves, so that a key that was revoked, has expired,
//! whose holder was erased, or that has lost the route ends its open answers and its sockets too, not only
//! its next request. So does an agent that was taken out of the map, has lost its capability or our trust, or whose
//! certificate or licence counts no more.
//!
//! Callers whom a provider's own credential vouches for are the provider's to turn away.

use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use pingora::protocols::tls::SslDigest;
use pingora::proxy::Session;

use super::Gateway;
use super::context::Exchange;
use super::reject::Rejection;
use super::response::rest_of;
use crate::access::a2a::chain::Certificate;
use crate::access::authenticator::Authenticator;
use crate::access::credential::Principal;

/// How often it is asked: an open answer outlives what it rests on by no more.
const ASKED_EVERY: Duration = Duration::from_secs(1);

impl Gateway {
    /// Makes sure that an answer may go on, where it is time to ask; returns when to ask again, never where nothing of
    /// ours vouches for the caller.
    ///
    /// # Errors
    /// What let the answer begin counts no more.
    pub(super) fn ensure_standing(
        &self,
        session: &Session,
        exchange: &mut Exchange,
    ) -> Result<Option<Duration>, Rejection> {
        self.ensure_standing_of(exchange, || self.certificate(session))
    }

    /// Waits for what is written to one who may not read, as long as the answer may go on.
    ///
    /// # Errors
    /// What let the answer begin counts no more: the writing is given up wherever it was.
    pub(super) async fn while_standing<T>(
        &self,
        exchange: &mut Exchange,
        connection: Option<&SslDigest>,
        writing: impl Future<Output = T>,
    ) -> Result<T, Rejection> {
        let mut writing = pin!(writing);
        loop {
            let rest = self.ensure_standing_of(exchange, || self.certificate_over(connection))?;
            tokio::select! {
                biased;
                done = &mut writing => return Ok(done),
                () = rest_of(rest) => {}
            }
        }
    }

    fn ensure_standing_of(
        &self,
        exchange: &mut Exchange,
        certificate: impl FnOnce() -> Certificate,
    ) -> Result<Option<Duration>, Rejection> {
        if exchange.principal.is_none() && exchange.grant.is_none() {
            return Ok(None);
        }
        let now = self.clock.monotonic();
        let rest = (exchange.stood_at + ASKED_EVERY).saturating_sub(now);
        if !rest.is_zero() {
            return Ok(Some(rest));
        }
        exchange.stood_at = now;
        self.stands(exchange, certificate).map(|()| Some(ASKED_EVERY)).inspect_err(|rejection| {
            // Noted here, because an answer that has begun may only be cut.
            exchange.outcome.reason = Some(rejection.answer().code);
            exchange.outcome.is_denied = true;
            if let (Rejection::A2a(denial), Some(call)) = (rejection, &mut exchange.agent) {
                call.denied = Some(denial.code);
            }
        })
    }

    fn stands(
        &self,
        exchange: &mut Exchange,
        certificate: impl FnOnce() -> Certificate,
    ) -> Result<(), Rejection> {
        let route = exchange.passage.as_ref().map_or("", |passage| &passage.route().name);
        let may = |principal| may_still(&self.authenticator, principal, route, self.clock.now());
        if !exchange.principal.as_ref().is_none_or(may) {
            return Err(Rejection::Withdrawn);
        }
        match &exchange.grant {
            Some(grant) => {
                let rests_on = (&*self.guardrails, &*self.licensing);
                grant.ensure_standing(&certificate(), rests_on, self.clock.now())?;
                self.ensure_trusted(exchange)
            }
            None => Ok(()),
        }
    }
}

/// Tells whether a credential that was let use a route still counts, and still may.
fn may_still(authenticator: &Authenticator, principal: &Principal, route: &str, now: Timestamp) -> bool {
    // Only keys have a scope.
    let scope = authenticator.keys.get(&principal.id).map(|key| key.scope);
    authenticator.still_counts(principal, now) && scope.is_none_or(|scope| scope.allows_route(route))
}
