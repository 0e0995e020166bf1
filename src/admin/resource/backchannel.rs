//! `/auth/backchannel-logout`: the OpenID provider signs somebody out, with no browser in between (OpenID Connect
//! Back-Channel Logout 1.0).

use axum::body::Body;
use http::HeaderValue;
use http::Response;
use http::StatusCode;
use http::header;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::access::sso::IdentityProvider;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::error::ApiError;

/// The longest form that is read, in bytes.
const FORM_BYTES_MAX: usize = 32 * 1024;

/// What an OpenID provider sends (OpenID Connect Back-Channel Logout 1.0, section 2.5).
#[derive(Deserialize, ToSchema)]
pub struct LogoutNotice {
    /// A signed token that names whose sessions end.
    pub logout_token: String,
}

/// `POST /auth/backchannel-logout`.
pub async fn logout(call: Call) -> Answer {
    let Some(IdentityProvider::Oidc(oidc)) = &call.office.authenticator.provider else {
        return Err(ApiError::NotFound("no OpenID provider is configured".to_owned()));
    };
    let form: LogoutNotice = call.form(FORM_BYTES_MAX)?;
    let leaving = oidc.take_logout(&form.logout_token).await.map_err(|fault| {
        tracing::warn!(request_id = call.request_id, error = %fault, "a logout token was not taken");
        call.note_failure(&fault.to_string(), None);
        ApiError::Invalid(fault.to_string())
    })?;
    let sessions = leaving.session.into_iter().collect();
    call.end_at_provider(oidc.issuer().to_owned(), leaving.subject, sessions).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
