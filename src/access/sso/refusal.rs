//! Why an identity provider signs nobody in, in the words of the standards: RFC 6749 (sections 4.1.2.1 and 5.2), OpenID
//! Connect Core (section 3.1.2.6). Pure.
//!
//! In: the error that a provider names, or what it answers a code with. Out: the fault, which tells people and the log
//! who is to do something. Only names of the standards are repeated; whatever else a provider or a browser wrote is a
//! refusal like any other.

use serde::Deserialize;

use super::oidc::SsoFault;

/// Errors that say that the provider does not take requests as we send them: the configuration, here or there, is wrong.
const OF_SETTINGS: [&str; 14] = [
    "invalid_request",
    "unauthorized_client",
    "unsupported_response_type",
    "invalid_scope",
    "invalid_client",
    "unsupported_grant_type",
    "invalid_target",
    "request_not_supported",
    "request_uri_not_supported",
    "registration_not_supported",
    "invalid_request_uri",
    "invalid_request_object",
    "invalid_redirect_uri",
    "redirect_uri_mismatch",
];
/// Errors of the provider's own.
const OF_PROVIDER: [&str; 2] = ["server_error", "temporarily_unavailable"];

/// The body of a refusal (RFC 6749, section 5.2).
#[derive(Deserialize)]
struct Written {
    error: String,
}

/// Returns what an error comes to by its name; one that is not known is the provider's, or its user's, no.
pub fn fault_of(error: &str) -> SsoFault {
    let among = |names: &[&'static str]| names.iter().copied().find(|name| *name == error);
    match (among(&OF_SETTINGS), among(&OF_PROVIDER)) {
        (Some(name), _) => SsoFault::Settings(name),
        (None, Some(name)) => SsoFault::Unwell(name),
        (None, None) => SsoFault::Refused,
    }
}

/// Returns what the body of a provider's refusal comes to.
pub fn fault_in(body: &[u8]) -> SsoFault {
    match serde_json::from_slice::<Written>(body) {
        Ok(written) => fault_of(&written.error),
        Err(_) => SsoFault::Refused,
    }
}
