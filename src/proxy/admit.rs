//! Who sends an exchange, whether it may use the route, and what is left of its quota.

use std::sync::Arc;
use std::time::Duration;

use pingora::proxy::Session;

use super::Gateway;
use super::context::Exchange;
use super::context::Passage;
use super::gate::Reserved;
use super::gate::Share;
use super::reject::Rejection;
use crate::access::credential::ALL_PLACES;
use crate::access::credential::CredentialFault;
use crate::access::credential::Presented;
use crate::access::credential::Principal;
use crate::access::credential::basic_holds_ours;
use crate::access::credential::holds_ours;
use crate::access::credential::is_ours;
use crate::access::credential::of_provider;
use crate::access::credential::presented;
use crate::access::limit::LimitState;
use crate::access::patience::Patience;
use crate::access::place;
use crate::access::role::Permission;
use crate::access::tier::Tier;
use crate::policy::decision::CallerId;
use crate::policy::route::RouteAuth;

/// What a key needs on routes that take ours.
const USE_ROUTES: Permission = Permission("routes:use");

impl Gateway {
    /// Knows the caller and takes from its quota: by one of our keys where the route takes them, else by the
    /// keyed hash of its provider credential, else by its address.
    pub(super) async fn admit(
        &self,
        session: &Session,
        exchange: &mut Exchange,
        passage: &Passage,
    ) -> Result<(), Rejection> {
        match &passage.route().auth {
            RouteAuth::Transparent => {
                let head = session.req_header();
                let credential = of_provider(&head.headers, head.uri.query());
                let credential = match credential {
                    Ok(Some(found)) if is_ours(&found) => Err(CredentialFault::Ours),
                    Ok(_) if head.uri.query().is_some_and(holds_ours) => Err(CredentialFault::InQuery),
                    other => other,
                };
                let caller =
                    credential.as_ref().ok().and_then(|it| it.as_deref()).map(|it| self.callers.of(it));
                let name = caller.clone().unwrap_or_else(|| stranger(session));
                exchange.caller = caller.map(CallerId::new);
                self.take(exchange, &name, self.licensing.tier(self.clock.now()))?;
                credential.map(drop).map_err(Rejection::Credential)
            }
            RouteAuth::GatewayKey(_) => self.admit_key(session, exchange, passage).await,
            RouteAuth::A2a => {
                self.admit_agent(session, exchange)?;
                ensure_nothing_of_ours(session).map_err(Rejection::Credential)
            }
        }
    }

    async fn admit_key(
        &self,
        session: &Session,
        exchange: &mut Exchange,
        passage: &Passage,
    ) -> Result<(), Rejection> {
        let (principal, presented) = match self.principal(session, &exchange.patience).await {
            Ok(known) => known,
            // Nobody knocks: it is we who cannot tell.
            Err(rejection @ Rejection::Untold(_)) => return Err(rejection),
            Err(rejection) => {
                // Knocking is paid by the address, as on the management plane.
                self.take(exchange, &stranger(session), self.licensing.tier(self.clock.now()))?;
                return Err(rejection);
            }
        };
        exchange.caller = Some(CallerId::new(principal.id()));
        exchange.presented = Some(presented);
        exchange.scope = Some(Arc::clone(&principal.scope));
        let tier = principal.tier.min(self.licensing.tier(self.clock.now()));
        self.take(exchange, &principal.payer(), tier)?;
        let is_allowed = principal.may(USE_ROUTES) && principal.scope.allows_route(&passage.route().name);
        if !is_allowed {
            return Err(Rejection::Forbidden);
        }
        self.budgets.check(&principal.id(), self.clock.now())?;
        exchange.principal = Some(principal);
        Ok(())
    }

    async fn principal(
        &self,
        session: &Session,
        patience: &Patience,
    ) -> Result<(Principal, Presented), Rejection> {
        let head = session.req_header();
        let presented =
            presented(&head.headers, head.uri.query(), &ALL_PLACES).map_err(Rejection::Credential)?;
        let presented = presented.ok_or(Rejection::NoKey)?;
        let principal =
            self.authenticator.authenticate(&presented.credential, self.clock.now(), patience).await?;
        principal.map(|principal| (principal, presented)).ok_or(Rejection::UnknownKey)
    }

    /// Takes a seat and a token; a request without a seat costs none.
    pub(super) fn take(&self, exchange: &mut Exchange, name: &str, tier: Tier) -> Result<(), Rejection> {
        let max = exchange.rules.limits.concurrent_requests_per_caller;
        if max > 0 && self.buckets.quota(tier).is_some() {
            let Some(seat) = self.concurrency.enter(name, max) else {
                exchange.limit = Some(self.buckets.peek(name, tier, self.clock.now()));
                self.telemetry.metrics.rate_limited();
                return Err(Rejection::TooManyAtOnce);
            };
            exchange.seat = Some(seat);
        }
        let limit = self.buckets.take(name, tier, self.clock.now());
        let (allowed, retry_after) = (limit.allowed, Duration::from_secs(limit.retry_after_s));
        exchange.limit = Some(limit);
        if allowed {
            return Ok(());
        }
        self.telemetry.metrics.rate_limited();
        Err(Rejection::RateLimited { retry_after })
    }

    /// Returns what a caller may hold of the room for bodies: whom its key or its certificate stands for, else whoever is at
    /// its address. A credential of a provider names nobody here: it can be made up, and another one for each request.
    pub(super) fn share_of(&self, session: &Session, exchange: &Exchange) -> Arc<Share> {
        let agent = exchange.agent.as_ref().and_then(|call| call.agent.as_deref());
        let caller = match (&exchange.principal, agent) {
            (Some(principal), _) => principal.payer(),
            (None, Some(agent)) => format!("agent:{agent}"),
            (None, None) => stranger(session),
        };
        self.budget.share_of(&caller)
    }

    /// Returns room for bytes of an exchange, none of which is taken yet.
    pub(super) fn room_of(&self, exchange: &Exchange) -> Reserved {
        exchange.share.as_ref().map_or_else(|| Reserved::none(&self.budget), Reserved::of)
    }

    /// Returns the quota of the address, for who is refused before anybody knows them.
    pub(super) fn limit_of_address(&self, session: &Session) -> LimitState {
        let now = self.clock.now();
        self.buckets.peek(&stranger(session), self.licensing.tier(now), now)
    }
}

/// Makes sure that what goes on to an agent holds no credential of ours where nobody takes it away.
///
/// # Errors
/// The query holds one, or `Basic` credentials do.
fn ensure_nothing_of_ours(session: &Session) -> Result<(), CredentialFault> {
    let head = session.req_header();
    match head.uri.query().is_some_and(holds_ours) {
        true => Err(CredentialFault::InQuery),
        false if basic_holds_ours(&head.headers) => Err(CredentialFault::Ours),
        false => Ok(()),
    }
}

/// Returns who pays where no credential counts, named as on the management plane.
pub(super) fn stranger(session: &Session) -> String {
    let address = session.client_addr().and_then(|address| address.as_inet()).map(|address| address.ip());
    place::stranger(address)
}
