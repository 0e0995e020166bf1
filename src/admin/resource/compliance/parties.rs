//! Gathers what reports of compliance go by of platforms, agents and identity providers.

use jiff::SignedDuration;
use jiff::Timestamp;

use super::facts::total;
use crate::access::sso::IdentityProvider;
use crate::admin::Office;
use crate::admin::error::ApiError;
use crate::govern::audit::Query;
use crate::govern::compliance::facts::AgentsFact;
use crate::govern::compliance::facts::LATE_MINUTES;
use crate::govern::compliance::facts::SignInFact;
use crate::govern::compliance::facts::SinkFact;
use crate::govern::siem::SinkState;
use crate::policy::a2a::TrustMode;
use crate::policy::route::RouteAuth;
use crate::policy::ruleset::Ruleset;

/// Returns how the platforms stand that the audit log is forwarded to.
///
/// # Errors
/// The audit log failed.
pub(super) async fn sinks(office: &Office, at: Timestamp) -> Result<Vec<SinkFact>, ApiError> {
    let standings = office.sinks.all();
    let mut sinks = Vec::with_capacity(standings.len());
    for sink in standings {
        let told = sink.told();
        let after = told.cursor.as_deref().and_then(|id| id.parse().ok());
        let to = Some(at - SignedDuration::from_mins(LATE_MINUTES));
        // A sink forwards what its own node recorded.
        let node = Some(office.facts.node_id.clone());
        let late = total(office, Query { after, to, node, ..Query::default() }).await?;
        let is_connected = match told.state {
            SinkState::Idle => None,
            SinkState::Connected => Some(true),
            SinkState::Retrying => Some(false),
        };
        sinks.push(SinkFact { name: sink.name.clone(), is_connected, late, dead: told.dead });
    }
    Ok(sinks)
}

/// Returns how calls of agents are judged.
pub(super) fn agents(office: &Office, rules: &Ruleset) -> AgentsFact {
    AgentsFact {
        routes: rules.routes.iter().filter(|route| matches!(route.auth, RouteAuth::A2a)).count(),
        known: office.guardrails.directory.load().map(|agents| agents.map.agents.len()),
        replay_window_s: rules.a2a.replay_window_s,
        is_replay_shared: office.guardrails.is_shared() || office.members.is_none(),
        signed_timestamp: rules.a2a.signed_timestamp,
        has_revocations: rules.a2a.client_crl.is_some(),
        enforces_trust: rules.a2a.trust == TrustMode::Enforce,
    }
}

/// Returns how people sign in.
pub(super) fn sign_in(office: &Office) -> SignInFact {
    let provider = office.authenticator.provider.as_ref();
    let sessions = office.authenticator.sessions.config();
    let users = office.authenticator.users.list();
    SignInFact {
        provider: provider.map(IdentityProvider::host),
        default_role: provider.and_then(|provider| provider.mapping().default_role),
        local_users: users.iter().filter(|user| !user.disabled).count(),
        idle: sessions.idle,
        lifetime: sessions.lifetime,
    }
}
