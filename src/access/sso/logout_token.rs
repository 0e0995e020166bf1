//! What a logout token has to say before it ends sessions (OpenID Connect Back-Channel Logout 1.0, section 2.6). Pure;
//! whoever asks has verified the signature.

use jiff::Timestamp;
use serde_json::Value;

use super::OidcConfig;
use super::claims::ClaimFault;
use super::claims::Claims;
use super::claims::SKEW_S;
use super::claims::audience;
use super::claims::subject;
use super::claims::text;

/// How long a token may be worth something, in seconds, whatever it says itself.
pub const LIFETIME_MAX_S: f64 = 600.0;
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
const ID_BYTES_MAX: usize = 255;

/// Somebody whom the provider signs out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The token's id.
    pub token_id: String,
    /// Whom; `None`: whoever has the session.
    pub subject: Option<String>,
    /// Which session there; `None`: all of them.
    pub session: Option<String>,
}

/// Judges the claims of a logout token.
///
/// # Errors
/// See [`ClaimFault`].
pub fn judge(claims: &Claims, config: &OidcConfig, now: Timestamp) -> Result<Leaving, ClaimFault> {
    if text(claims, "iss") != Some(config.issuer.as_str()) {
        return Err(ClaimFault::Issuer);
    }
    if !audience(claims, &config.client_id).0 {
        return Err(ClaimFault::Audience);
    }
    let now = now.as_second() as f64;
    let moment = |name: &str| claims.get(name).and_then(Value::as_f64);
    if moment("iat").is_none_or(|at| at - SKEW_S > now) {
        return Err(ClaimFault::Early);
    }
    let is_old = moment("iat").is_none_or(|at| at + LIFETIME_MAX_S + SKEW_S <= now);
    if is_old || (claims.contains_key("exp") && moment("exp").is_none_or(|at| at + SKEW_S <= now)) {
        return Err(ClaimFault::Expired);
    }
    // An ID token is signed with the same keys, and must end nothing.
    let is_event = claims.get("events").and_then(|events| events.get(EVENT)).is_some_and(Value::is_object);
    if !is_event || claims.contains_key("nonce") {
        return Err(ClaimFault::Event);
    }
    let short = |name: &str| text(claims, name).filter(|text| (1..=ID_BYTES_MAX).contains(&text.len()));
    let token_id = short("jti").ok_or(ClaimFault::Event)?.to_owned();
    let named = claims.contains_key("sub").then(|| subject(claims)).transpose()?.map(str::to_owned);
    let session = short("sid").map(str::to_owned);
    if named.is_none() && session.is_none() {
        return Err(ClaimFault::Subject);
    }
    Ok(Leaving { token_id, subject: named, session })
}
