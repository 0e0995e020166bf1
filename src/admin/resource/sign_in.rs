//! `/login` and `/auth/*`: how people get a session, by key, by password or at the identity provider, and give it
//! back.
//!
//! Every sign-in begins a new session under a new secret, and ends the one the browser had. What failed is told
//! in one sentence of ours; nothing that a provider or a browser wrote is repeated.

use std::time::Duration;

use http::HeaderValue;
use http::StatusCode;
use http::header;
use serde::Deserialize;
use utoipa::ToSchema;

use super::saml;
use crate::access::cookie::Cookie;
use crate::access::cookie::CookieStyle;
use crate::access::credential::Principal;
use crate::access::credential::Proof;
use crate::access::session::Holder;
use crate::access::session::Identity;
use crate::access::session::SessionError;
use crate::access::session::SessionRecord;
use crate::access::sso::Hidden;
use crate::access::sso::IdentityProvider;
use crate::access::sso::attempt::ATTEMPT_LIFETIME;
use crate::access::sso::attempt::AttemptFault;
use crate::access::sso::oidc::Returned;
use crate::access::sso::oidc::SsoFault;
use crate::access::url::safe_next;
use crate::access::user::Login;
use crate::access::user::LoginFault;
use crate::access::user::Moment;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::dashboard::page::redirect;
use crate::admin::dashboard::page::with_cookies;
use crate::admin::dashboard::sign_in::LoginPage;
use crate::admin::dashboard::sign_in::confirm_logout;
use crate::admin::dashboard::sign_in::failed;
use crate::admin::dashboard::sign_in::login as login_page;
use crate::admin::error::ApiError;
use crate::admin::sign_in::OwnSession;

/// The longest form that is read, in bytes.
const FORM_BYTES_MAX: usize = 16 * 1024;
const IN_THE_CLEAR: &str = "Nobody can sign in here: the session would travel in the clear. Set a certificate in \
                            [admin.tls], or `public_url` in [admin] where a proxy in front speaks HTTPS.";
const WRONG_KEY: &str = "this key opens nothing";

/// Where to go in the end.
#[derive(Default, Deserialize)]
struct Next {
    next: Option<String>,
}

/// The form of the page to sign in.
#[derive(Deserialize, ToSchema)]
pub struct LoginForm {
    /// An API key, where no name is given.
    #[serde(default, deserialize_with = "written")]
    pub key: Option<String>,
    /// The name of a user.
    #[serde(default)]
    pub username: String,
    /// The user's password.
    #[serde(default)]
    pub password: String,
    /// The page to lead on to.
    #[serde(default)]
    pub next: String,
}

/// Reads a field that is there, be it empty.
fn written<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    String::deserialize(field).map(Some)
}

/// The form of the page that asks whether to sign out.
#[derive(Deserialize, ToSchema)]
pub struct LogoutForm {
    /// What our own page carries, and nobody else knows.
    pub token: String,
}

/// Why somebody is asked again.
struct Denied {
    status: StatusCode,
    why: String,
    /// When to come back.
    retry_after: Option<Duration>,
}

/// What the identity provider makes the browser bring; it may bring more.
#[derive(Default, Deserialize)]
struct Callback {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// `GET /login`.
pub async fn page(call: Call) -> Answer {
    let wanted = call.query::<Next>().unwrap_or_default();
    let next = safe_next(wanted.next.as_deref());
    match (&call.session, &call.principal) {
        (Some(_), Some(_)) => redirect(next),
        _ => shown(&call, next, None),
    }
}

/// `POST /login`: signs in with an API key, or with a name and a password.
pub async fn login(call: Call) -> Answer {
    call.office.ensure_own_page(&call.headers)?;
    let Some(style) = call.office.sign_in.cookies else { return shown(&call, "/", None) };
    let form: LoginForm = call.form(FORM_BYTES_MAX)?;
    let next = safe_next(Some(&form.next)).to_owned();
    let account = call.office.authenticator.users.id_of(&form.username);
    let found = match (form.username.is_empty(), &form.key) {
        (false, _) => by_password(&call, form.username, form.password).await,
        (true, Some(key)) => by_key(&call, key),
        (true, None) => return Err(ApiError::Invalid("give a key, or a username and a password".to_owned())),
    };
    match found {
        Ok(holder) => with_cookies(redirect(&next), &[begin(&call, style, holder, None).await?]),
        Err(denied) => {
            call.note_failure(&denied.why, account);
            shown(&call, &next, Some(denied))
        }
    }
}

fn by_key(call: &Call, key: &str) -> Result<Holder, Denied> {
    match call.office.keys.authenticate(key.trim(), call.office.clock.now()) {
        Some(Principal { id, proof: Proof::Key(text), .. }) => Ok(Holder::Key { id, text }),
        _ => Err(Denied { status: StatusCode::UNAUTHORIZED, why: WRONG_KEY.to_owned(), retry_after: None }),
    }
}

async fn by_password(call: &Call, username: String, password: String) -> Result<Holder, Denied> {
    let now = Moment { wall: call.office.clock.now(), monotonic: call.office.clock.monotonic() };
    let login = Login { name: username, password, address: call.address };
    match call.office.authenticator.users.login(login, now).await {
        Ok(user) => Ok(Holder::User { id: user.id, generation: user.generation }),
        Err(fault) => {
            let (status, retry_after) = match fault {
                LoginFault::Wrong => (StatusCode::UNAUTHORIZED, None),
                LoginFault::LockedOut(locked) => (StatusCode::TOO_MANY_REQUESTS, Some(locked.retry_after)),
                LoginFault::Busy => (StatusCode::SERVICE_UNAVAILABLE, Some(Duration::from_secs(1))),
            };
            Err(Denied { status, why: fault.to_string(), retry_after })
        }
    }
}

/// `GET /auth/login`: sends the browser to the identity provider, or to our own page where there is none.
pub async fn sso(call: Call) -> Answer {
    let wanted = call.query::<Next>().unwrap_or_default();
    let next = safe_next(wanted.next.as_deref());
    let sign_in = &call.office.sign_in;
    let (Some(provider), Some(style)) = (&call.office.authenticator.provider, sign_in.cookies) else {
        return redirect("/login");
    };
    let oidc = match provider {
        IdentityProvider::Oidc(oidc) => oidc,
        IdentityProvider::Saml(saml) => return saml::leave(&call, saml, style, next).await,
    };
    match oidc.begin(next).await {
        Ok((place, attempt)) => {
            let age = Some(ATTEMPT_LIFETIME.as_secs());
            with_cookies(redirect(&place), &[Cookie::Attempt.set(style, &attempt.sealed, age)])
        }
        Err(fault) => refused(&call, &fault),
    }
}

/// `GET /auth/callback`: what the identity provider sends the browser back to.
pub async fn callback(call: Call) -> Answer {
    let sign_in = &call.office.sign_in;
    let provider = &call.office.authenticator.provider;
    let (Some(IdentityProvider::Oidc(oidc)), Some(style)) = (provider, sign_in.cookies) else {
        return Err(ApiError::NotFound("no OpenID provider is configured".to_owned()));
    };
    let cleared = [Cookie::Attempt.clear(style)];
    let Ok(brought) = call.query::<Callback>() else {
        return with_cookies(refused(&call, &SsoFault::Unreadable), &cleared);
    };
    let returned = Returned {
        cookie: Cookie::Attempt.of_headers(style, &call.headers),
        state: brought.state.as_deref(),
        code: brought.code.as_deref(),
        error: brought.error.as_deref(),
        issuer: brought.iss.as_deref(),
    };
    let signed_in = match oidc.complete(returned).await {
        Ok(signed_in) => signed_in,
        Err(fault) => {
            if let SsoFault::NoRole(subject) = &fault {
                call.end_without_role(oidc.issuer().to_owned(), subject).await?;
            }
            return with_cookies(refused(&call, &fault), &cleared);
        }
    };
    let holder = Holder::Sso(signed_in.identity);
    let cookie = begin(&call, style, holder, Some(signed_in.logout_hint.0)).await?;
    let [cleared] = cleared;
    with_cookies(redirect(safe_next(Some(&signed_in.next))), &[cleared, cookie])
}

/// `GET /auth/logout`: ends the session where somebody wants it to end, and else asks.
pub async fn logout(call: Call) -> Answer {
    let Some(own) = to_end(&call) else { return signed_out(&call, None).await };
    if call.office.leaves_on_purpose(&call.headers) {
        return end(&call, own).await;
    }
    let provider = call.office.authenticator.provider.as_ref().filter(|_| is_sso(&own.record.holder));
    confirm_logout(
        &call.office.authenticator.sessions.form_token(&own.secret),
        provider.and_then(IdentityProvider::logout_origin),
    )
}

/// `POST /auth/logout`: ends the session; the form of our own page carries the session's token.
pub async fn logout_confirmed(call: Call) -> Answer {
    call.office.ensure_own_page(&call.headers)?;
    let Some(own) = to_end(&call) else { return signed_out(&call, None).await };
    let form: LogoutForm = call.form(FORM_BYTES_MAX)?;
    if !call.office.authenticator.sessions.is_form_token(&own.secret, &form.token) {
        return Err(ApiError::ForeignOrigin);
    }
    end(&call, own).await
}

/// Returns the session that a call has, or would have if the other nodes could be asked about it.
fn to_end(call: &Call) -> Option<OwnSession> {
    call.session.clone().or_else(|| call.office.session_to_end(&call.headers))
}

/// Begins a session, in the place of the one the browser had; returns its cookie. What an identity provider says of
/// somebody counts in all their sessions: those with another role end.
pub(super) async fn begin(
    call: &Call,
    style: CookieStyle,
    holder: Holder,
    hint: Option<String>,
) -> Result<String, ApiError> {
    call.ensure_recordable()?;
    let (office, before, patience) = (call.office.clone(), to_end(call), call.patience.clone());
    let (id, now, actor) = (office.new_id(), office.clock.now(), holder.id());
    let way = match &holder {
        Holder::Key { .. } => "with an API key",
        Holder::User { .. } => "with a password",
        Holder::Sso(_) => "at the identity provider",
    };
    let begun = tokio::task::spawn_blocking(move || {
        if let Some(before) = before {
            office.authenticator.sessions.end(before.secret.expose(), &patience)?;
        }
        let ended = match &holder {
            Holder::Key { .. } | Holder::User { .. } => Vec::new(),
            Holder::Sso(Identity { issuer, subject, role, .. }) => {
                office.authenticator.sessions.end_of_other_role((issuer, subject), Some(*role), &patience)?
            }
        };
        let begun = office.authenticator.sessions.begin(id, holder, hint, now, &patience)?;
        Ok::<_, SessionError>((begun, ended))
    });
    let ((record, secret), ended) = begun.await.map_err(|_| call.office.panicked())??;
    call.note_ends(&ended, "the identity provider gives another role now").await;
    let mut event = call.event("login", format!("signed in {way}"));
    event.actor = Some(actor);
    event.entity = Some(record.id);
    call.office.record(event).await;
    Ok(Cookie::Session.set(style, secret.expose(), None))
}

/// Ends the session of a call, and leads to where the user signs out at the provider, or in again.
async fn end(call: &Call, own: OwnSession) -> Answer {
    let (office, patience) = (call.office.clone(), call.patience.clone());
    let ended = tokio::task::spawn_blocking(move || {
        office.authenticator.sessions.end(own.secret.expose(), &patience)
    });
    let ended = ended.await.map_err(|_| call.office.panicked())?.map_err(SessionError::from)?;
    let Some((record, hint)) = ended else { return signed_out(call, None).await };
    let mut event = call.event("logout", "signed out".to_owned());
    event.actor = Some(record.holder.id());
    event.entity = Some(record.id);
    call.office.record(event).await;
    let place = match (&call.office.authenticator.provider, &record.holder) {
        (Some(provider), Holder::Sso(identity)) => provider.logout_address(identity, hint.as_deref()).await,
        _ => None,
    };
    signed_out(call, place).await
}

async fn signed_out(call: &Call, place: Option<String>) -> Answer {
    let cleared: Vec<String> =
        call.office.sign_in.cookies.iter().map(|style| Cookie::Session.clear(*style)).collect();
    with_cookies(redirect(place.as_deref().unwrap_or("/login")), &cleared)
}

/// Returns the page to sign in, with what went wrong before.
fn shown(call: &Call, next: &str, denied: Option<Denied>) -> Answer {
    let sign_in = &call.office.sign_in;
    let retry_after = denied.as_ref().and_then(|denied| denied.retry_after);
    let (status, fault) = match (sign_in.cookies, denied) {
        (None, _) => (StatusCode::OK, Some(IN_THE_CLEAR.to_owned())),
        (Some(_), Some(denied)) => (denied.status, Some(sentence(&denied.why))),
        (Some(_), None) => (StatusCode::OK, None),
    };
    let has_users = !call.office.authenticator.users.is_empty();
    let provider = call.office.authenticator.provider.as_ref().map(IdentityProvider::host);
    let page = LoginPage { status, fault: fault.as_deref(), provider: provider.as_deref(), has_users, next };
    let mut answer = login_page(&page)?;
    if let Some(wait) = retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()));
    }
    Ok(answer)
}

/// Returns the page that says why a sign-in at the provider failed, and records it.
fn refused(call: &Call, fault: &SsoFault) -> Answer {
    tracing::warn!(request_id = call.request_id, error = %fault, "a single sign-on failed");
    call.note_failure(&fault.to_string(), None);
    let status = match fault {
        SsoFault::Attempt(AttemptFault::TooMany) => StatusCode::SERVICE_UNAVAILABLE,
        SsoFault::Attempt(_) | SsoFault::Unreadable => StatusCode::BAD_REQUEST,
        SsoFault::Refused | SsoFault::NoRole(_) => StatusCode::FORBIDDEN,
        SsoFault::Secret => StatusCode::INTERNAL_SERVER_ERROR,
        SsoFault::Settings(_)
        | SsoFault::Unwell(_)
        | SsoFault::ForeignAnswer
        | SsoFault::Fetch(_)
        | SsoFault::Metadata
        | SsoFault::ForeignMetadata
        | SsoFault::NoToken
        | SsoFault::Token(_)
        | SsoFault::Claim(_)
        | SsoFault::ForeignUser
        | SsoFault::UsedLogout => StatusCode::BAD_GATEWAY,
    };
    failed(status, &sentence(&fault.to_string()))
}

fn is_sso(holder: &Holder) -> bool {
    match holder {
        Holder::Key { .. } | Holder::User { .. } => false,
        Holder::Sso(_) => true,
    }
}

pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

impl Call {
    /// Ends the sessions of somebody to whom their identity provider gives no role any more.
    pub(super) async fn end_without_role(&self, issuer: String, subject: &Hidden) -> Result<(), ApiError> {
        self.ensure_recordable()?;
        let (office, patience, subject) = (self.office.clone(), self.patience.clone(), subject.0.clone());
        let ended = tokio::task::spawn_blocking(move || {
            office.authenticator.sessions.end_of_other_role((&issuer, &subject), None, &patience)
        });
        let ended = ended.await.map_err(|_| self.office.panicked())?.map_err(SessionError::from)?;
        self.note_ends(&ended, "the identity provider gives no role any more").await;
        Ok(())
    }

    /// Records that sessions ended, and why.
    pub(super) async fn note_ends(&self, ended: &[SessionRecord], why: &str) {
        for record in ended {
            let mut event = self.event("logout", why.to_owned());
            event.actor = Some(record.holder.id());
            event.entity = Some(record.id.clone());
            self.office.record(event).await;
        }
    }

    /// Reads the body as a form of a closed shape.
    pub(super) fn form<T: serde::de::DeserializeOwned>(&self, bytes_max: usize) -> Result<T, ApiError> {
        let unreadable = || ApiError::Invalid("the form cannot be read".to_owned());
        let text = std::str::from_utf8(&self.body).ok().filter(|text| text.len() <= bytes_max);
        let pairs = form_urlencoded::parse(text.ok_or_else(unreadable)?.as_bytes());
        let pairs = pairs.map(|(name, value)| (name.into_owned(), value.into_owned()));
        let entries = serde::de::value::MapDeserializer::<_, serde::de::value::Error>::new(pairs);
        T::deserialize(entries).map_err(|_| unreadable())
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::TooMany => Self::Conflict(error.to_string()),
            SessionError::Store(_) => Self::Unavailable,
        }
    }
}
