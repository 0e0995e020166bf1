//! Gathers what reports of compliance go by of platforms, agents and identity providers.

use jiff::Timestamp;

use crate::access::sso::IdentityProvider;
use crate::access::user::UserRecord;
use crate::admin::Office;
use crate::admin::error::ApiError;
use crate::admin::resource::siem;
use crate::govern::compliance::facts::AgentsFact;
use crate::govern::compliance::facts::SignInFact;
use crate::govern::compliance::facts::SinkFact;
use crate::govern::compliance::facts::UserFact;
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
        let late = siem::late(office, &told, at).await?;
        let is_connected = match told.state {
            SinkState::Idle => None,
            SinkState::Connected => Some(true),
            SinkState::Retrying | SinkState::Failed => Some(false),
        };
        sinks.push(SinkFact {
            name: sink.name.clone(),
            is_connected,
            late,
            dead: told.dead,
            missed: told.missed,
        });
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
        has_revocations: office.guardrails.vouching.revokes(),
        enforces_trust: rules.a2a.trust == TrustMode::Enforce,
    }
}

/// Returns how people sign in.
pub(super) fn sign_in(office: &Office) -> SignInFact {
    let provider = office.authenticator.provider.as_ref();
    let sessions = office.authenticator.sessions.config();
    let users = office.authenticator.users.list().into_iter().filter(|user| !user.disabled);
    let fact =
        |user: UserRecord| UserFact { used_at: user.last_login_at.unwrap_or(user.created_at), id: user.id };
    SignInFact {
        provider: provider.map(IdentityProvider::host),
        default_role: provider.and_then(|provider| provider.mapping().default_role),
        users: users.map(fact).collect(),
        idle: sessions.idle,
        lifetime: sessions.lifetime,
    }
}
