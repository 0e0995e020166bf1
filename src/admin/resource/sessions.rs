//! `/api/v1/sessions`: who is signed in, and how to end it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::access::session::Holder;
use crate::access::session::SessionError;
use crate::access::session::SessionRecord;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;

/// A session; never what the browser holds.
#[derive(Serialize, ToSchema)]
pub struct SessionEntry {
    /// Its id.
    pub id: String,
    /// Whom it stands for, as records name them.
    pub actor: String,
    /// The name for people.
    pub name: String,
    /// What they may do.
    pub role: &'static str,
    /// `api_key`, `password` or `sso`.
    pub method: &'static str,
    /// The identity provider, where there is one.
    pub issuer: Option<String>,
    /// When it began.
    pub created_at: String,
    /// When it was last used.
    pub last_seen_at: String,
    /// When it ends, whatever happens.
    pub expires_at: String,
    /// Whether it is the one that asks.
    pub current: bool,
}

/// The sessions that have not ended, oldest first.
#[derive(Serialize, ToSchema)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionEntry>,
    /// How many.
    pub total: usize,
}

/// A session that was ended.
#[derive(Serialize, ToSchema)]
pub struct EndedSession {
    /// `revoked`.
    pub status: &'static str,
    /// The session's id.
    pub id: String,
}

/// `GET /api/v1/sessions`.
pub async fn list(call: Call) -> Answer {
    let known = call.office.authenticator.sessions.list(call.office.clock.now());
    let sessions: Vec<SessionEntry> = known.iter().filter_map(|record| entry(&call, record)).collect();
    ok(&SessionList { total: sessions.len(), sessions })
}

/// `DELETE /api/v1/sessions/{id}`.
pub async fn revoke(call: Call) -> Answer {
    call.ensure_recordable()?;
    let id = call.parameter("id").to_owned();
    let (office, wanted, patience) = (call.office.clone(), id.clone(), call.patience.clone());
    let gone = tokio::task::spawn_blocking(move || office.authenticator.sessions.revoke(&wanted, &patience));
    if !gone.await.map_err(|_| call.office.panicked())?.map_err(SessionError::from)? {
        return Err(ApiError::NotFound("there is no such session".to_owned()));
    }
    let mut event = call.event("session_revoked", "a session was revoked".to_owned());
    event.entity = Some(id.clone());
    call.office.record(event).await;
    ok(&EndedSession { status: "revoked", id })
}

/// Returns a session as it is shown; `None` where its holder is no more, so that it opens nothing.
fn entry(call: &Call, record: &SessionRecord) -> Option<SessionEntry> {
    let principal = call.office.holder(record)?;
    let (method, issuer) = match &record.holder {
        Holder::Key { .. } => ("api_key", None),
        Holder::User { .. } => ("password", None),
        Holder::Sso(identity) => ("sso", Some(identity.issuer.clone())),
    };
    Some(SessionEntry {
        id: record.id.clone(),
        actor: record.holder.id(),
        name: principal.name,
        role: principal.role.as_str(),
        method,
        issuer,
        created_at: rfc3339(record.created_at),
        last_seen_at: rfc3339(record.seen_at),
        expires_at: rfc3339(record.expires_at),
        current: call.session.as_ref().is_some_and(|own| own.record.id == record.id),
    })
}
