//! `/auth/callback` by POST, and `/auth/saml/*`: what a SAML provider sends browsers with, and what it is told of us.
//!
//! A provider's messages come from its own pages, with no cookie of ours but the one of a sign-in under way; who they
//! are about is known by their signatures.

use std::sync::Arc;

use http::HeaderValue;
use http::StatusCode;
use http::header;
use serde::Deserialize;
use utoipa::ToSchema;

use super::sign_in::begin;
use super::sign_in::sentence;
use crate::access::cookie::Cookie;
use crate::access::cookie::CookieStyle;
use crate::access::session::Holder;
use crate::access::session::SessionError;
use crate::access::sso::IdentityProvider;
use crate::access::sso::SignedIn;
use crate::access::sso::attempt::ATTEMPT_LIFETIME;
use crate::access::sso::attempt::AttemptFault;
use crate::access::sso::saml::SamlFault;
use crate::access::sso::saml::client::Leaving;
use crate::access::sso::saml::client::Posted;
use crate::access::sso::saml::client::SamlClient;
use crate::access::sso::saml::document::DocumentFault;
use crate::access::sso::saml::response::ResponseFault;
use crate::access::url::safe_next;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::dashboard::page::redirect;
use crate::admin::dashboard::page::with_cookies;
use crate::admin::dashboard::sign_in::failed;
use crate::admin::error::ApiError;

/// The longest form that is read, in bytes: a response in base 64.
const FORM_BYTES_MAX: usize = 512 * 1024;
const METADATA_TYPE: &str = "application/samlmetadata+xml";
const NO_PROVIDER: &str = "no SAML identity provider is configured";

/// The form that the provider makes the browser send; it may carry more.
#[derive(Default, Deserialize, ToSchema)]
pub struct Brought {
    /// The provider's answer, in base 64.
    #[serde(rename = "SAMLResponse")]
    pub response: String,
    /// What it was given to bring back.
    #[serde(default, rename = "RelayState")]
    pub relay: String,
}

/// Sends the browser to the provider.
pub(super) async fn leave(call: &Call, saml: &Arc<SamlClient>, style: CookieStyle, next: &str) -> Answer {
    let (client, next) = (Arc::clone(saml), next.to_owned());
    let begun = tokio::task::spawn_blocking(move || client.begin(&next)).await;
    match begun.map_err(|_| call.office.panicked())? {
        Ok((place, attempt)) => {
            let age = Some(ATTEMPT_LIFETIME.as_secs());
            with_cookies(redirect(&place), &[Cookie::PostedAttempt.set(style, &attempt.sealed, age)])
        }
        Err(fault) => refused(call, &fault),
    }
}

/// `POST /auth/callback`: what the provider makes the browser bring.
pub async fn callback(call: Call) -> Answer {
    let (saml, style) = provider(&call)?;
    let cleared = Cookie::PostedAttempt.clear(style);
    let Ok(brought) = call.form::<Brought>(FORM_BYTES_MAX) else {
        return with_cookies(refused(&call, &DocumentFault::Shape.into()), &[cleared]);
    };
    let cookie = Cookie::PostedAttempt.of_headers(style, &call.headers).map(str::to_owned);
    let client = Arc::clone(&saml);
    let signed_in: Result<SignedIn, SamlFault> = tokio::task::spawn_blocking(move || {
        let (relay, response) = (Some(brought.relay.as_str()), brought.response.as_str());
        client.complete(&Posted { cookie: cookie.as_deref(), relay, response })
    })
    .await
    .map_err(|_| call.office.panicked())?;
    let signed_in = match signed_in {
        Ok(signed_in) => signed_in,
        Err(fault) => {
            if let SamlFault::NoRole(subject) = &fault {
                call.end_without_role(saml.issuer(), subject).await?;
            }
            return with_cookies(refused(&call, &fault), &[cleared]);
        }
    };
    let holder = Holder::Sso(signed_in.identity);
    let cookie = begin(&call, style, holder, Some(signed_in.logout_hint.0)).await?;
    with_cookies(redirect(safe_next(Some(&signed_in.next))), &[cleared, cookie])
}

/// `GET /auth/saml/metadata`.
pub async fn metadata(call: Call) -> Answer {
    let (saml, _) = provider(&call)?;
    let mut response = http::Response::new(axum::body::Body::from(saml.metadata()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(METADATA_TYPE));
    Ok(response)
}

/// `GET /auth/saml/logout`: the provider signs somebody out, or has done so.
pub async fn logout(call: Call) -> Answer {
    let (saml, style) = provider(&call)?;
    let query = call.query.clone();
    let taken = tokio::task::spawn_blocking(move || saml.take_logout(&query)).await;
    let leaving = match taken.map_err(|_| call.office.panicked())? {
        Ok(leaving) => leaving,
        Err(fault) => return refused(&call, &fault),
    };
    match leaving {
        Leaving::Done { entirely: true } => redirect("/login"),
        Leaving::Done { entirely: false } => failed(
            StatusCode::OK,
            "You are signed out here, but the identity provider could not sign you out everywhere.",
        ),
        Leaving::Asked { issuer, subject, sessions, answer } => {
            call.end_at_provider(issuer, Some(subject), sessions).await?;
            with_cookies(redirect(&answer), &[Cookie::Session.clear(style)])
        }
    }
}

impl Call {
    /// Ends the sessions that their provider ends, and records each.
    pub(super) async fn end_at_provider(
        &self,
        issuer: String,
        subject: Option<String>,
        sessions: Vec<String>,
    ) -> Result<usize, ApiError> {
        self.ensure_recordable()?;
        let (office, patience) = (self.office.clone(), self.patience.clone());
        let ended = tokio::task::spawn_blocking(move || {
            office.authenticator.sessions.end_at_provider(&issuer, subject.as_deref(), &sessions, &patience)
        });
        let ended = ended.await.map_err(|_| self.office.panicked())?.map_err(SessionError::from)?;
        self.note_ends(&ended, "signed out by the identity provider").await;
        Ok(ended.len())
    }
}

fn provider(call: &Call) -> Result<(Arc<SamlClient>, CookieStyle), ApiError> {
    match (&call.office.authenticator.provider, call.office.sign_in.cookies) {
        (Some(IdentityProvider::Saml(saml)), Some(style)) => Ok((Arc::clone(saml), style)),
        _ => Err(ApiError::NotFound(NO_PROVIDER.to_owned())),
    }
}

/// Returns the page that says why a sign-in, or a sign-out, failed, and records it.
fn refused(call: &Call, fault: &SamlFault) -> Answer {
    tracing::warn!(request_id = call.request_id, error = %fault, "a SAML message was not taken");
    call.note_failure(&fault.to_string(), None);
    let status = match fault {
        SamlFault::Attempt(AttemptFault::TooMany) | SamlFault::TooMany | SamlFault::Forgetful(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        // The browser brings it: whoever brings words that the provider did not sign asks for what is not to be had.
        SamlFault::Attempt(_)
        | SamlFault::Message(_)
        | SamlFault::Document(_)
        | SamlFault::Signature(_)
        | SamlFault::Replayed => StatusCode::BAD_REQUEST,
        SamlFault::Response(ResponseFault::Refused) | SamlFault::NoRole(_) => StatusCode::FORBIDDEN,
        SamlFault::Response(ResponseFault::Settings | ResponseFault::Unwell) => StatusCode::BAD_GATEWAY,
        SamlFault::NoKey => StatusCode::NOT_FOUND,
        SamlFault::OwnKey | SamlFault::Metadata(_) => StatusCode::INTERNAL_SERVER_ERROR,
        SamlFault::Response(_) => StatusCode::BAD_REQUEST,
    };
    failed(status, &sentence(&fault.to_string()))
}
