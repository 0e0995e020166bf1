//! `/api/v1/auth`: a name and a password for a bearer token, and the token's end.

use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::credential::Principal;
use crate::access::credential::Proof;
use crate::access::role::Role;
use crate::access::session::Holder;
use crate::access::sso::IdentityProvider;
use crate::access::token::NewToken;
use crate::access::token::RevokeError;
use crate::access::token::Via;
use crate::access::user::Login;
use crate::access::user::LoginFault;
use crate::access::user::Moment;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;

/// Who wants a token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// The name of a local user.
    pub username: String,
    /// Its password.
    pub password: String,
}

/// A token that was issued; it can never be shown again.
#[derive(Serialize, ToSchema)]
pub struct TokenGrant {
    /// The token, for `Authorization: Bearer`.
    pub access_token: String,
    /// `Bearer`.
    pub token_type: &'static str,
    /// How long it counts, in seconds.
    pub expires_in: i64,
    /// When it ends.
    pub expires_at: String,
    /// Its id, by which an admin can revoke it.
    pub token_id: String,
    /// The user's id.
    pub user_id: String,
    /// What it may do.
    pub role: &'static str,
}

/// Which token is to end; the caller's own where the body is empty.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// The id of somebody's token; for admins.
    pub token_id: Option<String>,
    /// A token of the caller's own, or, for admins, of anybody.
    pub token: Option<String>,
}

/// A token that was revoked.
#[derive(Serialize, ToSchema)]
pub struct RevokedToken {
    /// `revoked`.
    pub status: &'static str,
    /// The token's id.
    pub id: String,
}

/// Whom the credential of a call stands for.
#[derive(Serialize, ToSchema)]
pub struct Identity {
    /// The id used in records.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// What it may do.
    pub role: &'static str,
    /// How much it is entitled to.
    pub tier: &'static str,
    /// `api_key`, `session`, or how the token's subject logged in: `local`, `oidc`, `saml`.
    pub credential: &'static str,
    /// When the credential ends, where it does.
    pub expires_at: Option<String>,
}

/// `POST /api/v1/auth/token`.
pub async fn token(call: Call) -> Answer {
    if call.body.is_empty() && call.session.is_some() {
        return token_of_session(&call).await;
    }
    let TokenRequest { username, password } = call.json()?;
    call.ensure_recordable()?;
    let office = &call.office;
    let now = Moment { wall: office.clock.now(), monotonic: office.clock.monotonic() };
    let account = office.authenticator.users.id_of(&username);
    let login = Login { name: username, password, address: call.address };
    let user = match office.authenticator.users.login(login, now).await {
        Ok(user) => user,
        Err(fault) => return Err(refused(&call, &fault, account)),
    };
    let new = NewToken {
        id: office.new_id(),
        subject: user.id.clone(),
        name: user.name,
        role: user.role,
        tier: user.tier,
        via: Via::Local,
        session: None,
        generation: user.generation,
        ttl: None,
    };
    granted(&call, new).await
}

/// Gives whoever is signed in a token for programs, which ends with the session at the latest.
async fn token_of_session(call: &Call) -> Answer {
    call.office.ensure_own_page(&call.headers)?;
    call.ensure_recordable()?;
    let session = call.session.as_ref().ok_or(ApiError::Unauthenticated)?;
    let principal = call.office.holder(&session.record).ok_or(ApiError::Unauthenticated)?;
    let (via, generation) = match &session.record.holder {
        Holder::Key { .. } => {
            return Err(ApiError::Invalid("the session stands for an API key: programs use that".to_owned()));
        }
        Holder::User { generation, .. } => (Via::Local, *generation),
        Holder::Sso(_) => match &call.office.authenticator.provider {
            Some(IdentityProvider::Saml(_)) => (Via::Saml, 0),
            Some(IdentityProvider::Oidc(_)) | None => (Via::Oidc, 0),
        },
    };
    let left = session.record.expires_at.duration_since(call.office.clock.now());
    let left = std::time::Duration::try_from(left).unwrap_or_default();
    let new = NewToken {
        id: call.office.new_id(),
        subject: principal.id,
        name: principal.name,
        role: principal.role,
        tier: None,
        via,
        session: Some(session.record.id.clone()),
        generation,
        ttl: Some(left.min(call.office.authenticator.tokens.ttl())),
    };
    granted(call, new).await
}

/// Issues a token, records that, and shows it once.
async fn granted(call: &Call, new: NewToken) -> Answer {
    let (office, role, user) = (&call.office, new.role, new.subject.clone());
    let issued = office.authenticator.tokens.issue(new, office.clock.now());
    let mut event = call.event("login", format!("a user logged in and got token {}", issued.claims.id));
    (event.actor, event.entity) = (Some(user.clone()), Some(user.clone()));
    office.record(event).await;
    ok(&TokenGrant {
        access_token: issued.token,
        token_type: "Bearer",
        expires_in: issued.claims.expires_at - issued.claims.issued_at,
        expires_at: rfc3339(issued.claims.ends()),
        token_id: issued.claims.id,
        user_id: user,
        role: role.as_str(),
    })
}

/// Records a login that failed, and the id of the user it was for; never a name that is nobody's, which may be a
/// mistyped password.
fn refused(call: &Call, fault: &LoginFault, account: Option<String>) -> ApiError {
    call.note_failure(&fault.to_string(), account);
    match fault {
        LoginFault::Wrong => ApiError::LoginFailed,
        LoginFault::Busy => ApiError::Busy,
        LoginFault::LockedOut(locked) => ApiError::LockedOut { retry_after_s: locked.retry_after.as_secs() },
    }
}

/// `POST /api/v1/auth/revoke`.
pub async fn revoke(call: Call) -> Answer {
    let wanted = match call.body.is_empty() {
        true => Revocation::default(),
        false => call.json()?,
    };
    call.ensure_recordable()?;
    let id = meant(&call, wanted)?;
    let (office, token) = (call.office.clone(), id.clone());
    let now = office.clock.now();
    // Only admins end whatever token they like.
    let own_of = call.principal.as_ref().filter(|it| it.role != Role::Admin).map(Principal::id);
    let done = tokio::task::spawn_blocking(move || {
        let tokens = &office.authenticator.tokens;
        own_of.map_or_else(|| tokens.revoke(&token, now), |subject| tokens.revoke_own(&token, &subject, now))
    })
    .await;
    done.map_err(|_| call.office.panicked())??;
    let mut event = call.event("token_revoked", "a token was revoked".to_owned());
    event.entity = Some(id.clone());
    call.office.record(event).await;
    ok(&RevokedToken { status: "revoked", id })
}

/// Returns the id of the token that is meant, where the caller may end it.
fn meant(call: &Call, wanted: Revocation) -> Result<String, ApiError> {
    let principal = call.principal.as_ref().ok_or(ApiError::Unauthenticated)?;
    let own = match &principal.proof {
        Proof::Token(claims) => Some(claims.id.clone()),
        Proof::Key(_) | Proof::Session { .. } => None,
    };
    let invalid = |text: &str| ApiError::Invalid(text.to_owned());
    let id = match (wanted.token_id, wanted.token) {
        (Some(_), Some(_)) => return Err(invalid("token_id and token: give one")),
        (None, None) => {
            let advice = "this call came with no token: DELETE /api/v1/keys/{id} revokes keys, /auth/logout ends sessions";
            return own.ok_or_else(|| invalid(advice));
        }
        (Some(id), None) => id,
        (None, Some(token)) => {
            let claims = call.office.authenticator.tokens.verify(&token, call.office.clock.now());
            let claims = claims.map_err(|refusal| ApiError::Invalid(format!("token: {refusal}")))?;
            if claims.subject == principal.id {
                return Ok(claims.id);
            }
            claims.id
        }
    };
    let may = principal.role == Role::Admin || own.as_ref() == Some(&id);
    if may { Ok(id) } else { Err(ApiError::NotYours) }
}

/// `GET /api/v1/auth/whoami`.
pub async fn whoami(call: Call) -> Answer {
    let principal = call.principal.as_ref().ok_or(ApiError::Unauthenticated)?;
    let (credential, expires_at) = match &principal.proof {
        Proof::Key(_) => {
            let key = call.office.keys.list().into_iter().find(|key| key.id == principal.id);
            ("api_key", key.and_then(|key| key.expires_at))
        }
        Proof::Token(claims) => (claims.via.as_str(), Some(claims.ends())),
        Proof::Session { .. } => ("session", call.session.as_ref().map(|own| own.record.expires_at)),
    };
    ok(&Identity {
        id: principal.id.clone(),
        name: principal.name.clone(),
        role: principal.role.as_str(),
        tier: principal.tier.min(call.office.tier()).as_str(),
        credential,
        expires_at: expires_at.map(rfc3339),
    })
}

impl From<RevokeError> for ApiError {
    fn from(error: RevokeError) -> Self {
        match error {
            RevokeError::Id => Self::Invalid(error.to_string()),
            RevokeError::TooOften { retry_after_s } => Self::RateLimited { retry_after_s },
            RevokeError::TooMany => Self::Conflict(error.to_string()),
            RevokeError::Store(_) => Self::Unavailable,
        }
    }
}
