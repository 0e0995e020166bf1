//! Every way a management call fails, and the answer the caller gets: the one place of the admin
//! plane that knows status codes. The body is the contract's `{"error": string}`; where a list helps,
//! it stands beside it.

use std::sync::Arc;

use axum::body::Body;
use http::HeaderValue;
use http::Method;
use http::Response;
use http::StatusCode;
use http::header;
use serde_json::Value;
use serde_json::json;

use super::adapter::ReadFault;
use crate::access::role::Permission;
use crate::access::session::shared::Untold;
use crate::access::tier::Tier;
use crate::scan::classifier::Unjudged;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The body or a parameter is wrong.
    #[error("{0}")]
    Invalid(String),
    /// Several things are wrong; each is named.
    #[error("{message}")]
    Faults {
        /// What was refused.
        message: &'static str,
        /// Every fault.
        faults: Vec<String>,
    },
    /// A name is unknown; the known ones are listed under `key`.
    #[error("{message}")]
    UnknownName {
        /// What is unknown.
        message: String,
        /// The field of the answer that lists the known names.
        key: &'static str,
        /// The known names.
        known: Vec<String>,
    },
    /// No credential, or none that counts.
    #[error("a valid credential is required: X-API-Key, or Authorization: Bearer")]
    Unauthenticated,
    /// Whether the session that somebody calls with has ended nobody can tell: neither does it count, nor is it none.
    #[error(transparent)]
    Untold(#[from] Untold),
    /// Two different credentials.
    #[error("two different credentials were given: send one")]
    AmbiguousCredential,
    /// A credential where it ends in logs.
    #[error("a credential in the query is refused: send it in a header")]
    CredentialInQuery,
    /// The name or the password is wrong, or the user is disabled: nobody is told which.
    #[error("the name or the password is wrong, or the user is disabled")]
    LoginFailed,
    /// Too many logins failed.
    #[error("too many failed logins, try again in {retry_after_s} s")]
    LockedOut {
        /// When to come back, in seconds.
        retry_after_s: u64,
    },
    /// As many passwords are being checked as may be.
    #[error("too many passwords are being checked at the moment")]
    Busy,
    /// The credential's role does not allow it.
    #[error("the role of this credential does not allow {0}")]
    Forbidden(Permission),
    /// The tier does not have it.
    #[error("{feature} needs tier {} or above; here it is {}", .least.title(), .has.title())]
    TierTooLow {
        /// What was asked for.
        feature: &'static str,
        /// The least tier that has it.
        least: Tier,
        /// The tier of the credential, or of the deployment where that is lower.
        has: Tier,
    },
    /// The token is somebody else's.
    #[error("only an admin ends somebody else's token")]
    NotYours,
    /// The request names a host that cannot be read, or several.
    #[error("the Host header is malformed")]
    BadHost,
    /// The request is meant for another host.
    #[error("this gateway does not answer to that host name: add it to `hosts` in [admin]")]
    Misdirected,
    /// A page of another origin tries to change something.
    #[error("changes are not taken from pages of another origin")]
    ForeignOrigin,
    /// Nothing is there.
    #[error("{0}")]
    NotFound(String),
    /// What is there already does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// The path is there, for other methods.
    #[error("this path takes {}", .allow.iter().map(Method::as_str).collect::<Vec<_>>().join(", "))]
    MethodNotAllowed {
        /// The methods it takes.
        allow: Vec<Method>,
    },
    /// The document changed since it was read.
    #[error("the configuration is at another revision: read it again")]
    PreconditionFailed,
    /// More bytes than are inspected.
    #[error("the content is larger than the {0} bytes that are inspected")]
    TooLarge(usize),
    /// The content could not be inspected.
    #[error("the content cannot be inspected: {0}")]
    Unreadable(String),
    /// The time that looking at content may take was over before all of it was judged.
    #[error(
        "the content was not judged whole within {0} ms, `scan_ms` in [limits], so nothing is said of it: send it in parts"
    )]
    Late(u64),
    /// The content was not judged, and that is nothing of it.
    #[error("the content was not judged: {0}")]
    Unjudged(Unjudged),
    /// As many streams are open as may be.
    #[error("too many audit streams are open")]
    TooManyStreams,
    /// The quota is used up.
    #[error("rate limit exceeded, try again in {retry_after_s} s")]
    RateLimited {
        /// When to come back, in seconds.
        retry_after_s: u64,
    },
    /// As many of the caller's calls are under way as may be.
    #[error("too many requests of this caller are under way")]
    TooManyAtOnce,
    /// The body could not be read.
    #[error(transparent)]
    Unread(Arc<ReadFault>),
    /// The store or the audit log failed.
    #[error("the gateway cannot reach its state at the moment")]
    Unavailable,
    /// A defect of the gateway.
    #[error("the gateway failed")]
    Internal,
}

impl ApiError {
    /// Returns the status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) | Self::Faults { .. } | Self::UnknownName { .. } | Self::AmbiguousCredential => {
                StatusCode::BAD_REQUEST
            }
            Self::Unreadable(_) | Self::BadHost | Self::CredentialInQuery => StatusCode::BAD_REQUEST,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignOrigin | Self::NotYours => StatusCode::FORBIDDEN,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Unauthenticated | Self::LoginFailed => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::TierTooLow { .. } => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unread(fault) => fault.status(),
            Self::RateLimited { .. } | Self::LockedOut { .. } | Self::TooManyAtOnce => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Unavailable | Self::Untold(_) | Self::TooManyStreams | Self::Busy => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Late(_) | Self::Unjudged(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn body(&self) -> Value {
        let mut body = json!({ "error": self.to_string() });
        match self {
            Self::Faults { faults, .. } => body["faults"] = json!(faults),
            Self::UnknownName { key, known, .. } => body[*key] = json!(known),
            _ => {}
        }
        body
    }

    /// Returns the answer.
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match &self {
            Self::Unauthenticated | Self::LoginFailed => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"portcullis\""),
                );
            }
            Self::MethodNotAllowed { allow } => {
                let allow = allow.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
                let value = HeaderValue::from_str(&allow).expect("method names are header values");
                headers.insert(header::ALLOW, value);
            }
            Self::Busy | Self::TooManyAtOnce | Self::Untold(_) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Self::RateLimited { retry_after_s } | Self::LockedOut { retry_after_s } => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(*retry_after_s));
            }
            _ => {}
        }
        response
    }
}
