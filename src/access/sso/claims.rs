//! What an ID token has to say before it is believed (OpenID Connect Core, section 3.1.3.7), and what is taken
//! from it: a name and a role. Pure; whoever asks has verified the signature.

use jiff::Timestamp;
use serde_json::Map;
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::Mapping;
use super::OidcConfig;
use crate::access::role::Role;
use crate::access::session::Identity;

/// Claims by name.
pub type Claims = Map<String, Value>;

/// How far the provider's clock and ours may differ, in seconds.
pub const SKEW_S: f64 = 60.0;
const SUBJECT_BYTES_MAX: usize = 255;
const NAME_CHARS_MAX: usize = 128;
/// Claims that name a user where the configured one does not.
const NAMES: [&str; 3] = ["preferred_username", "email", "name"];

/// What is wrong with an ID token whose signature is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimFault {
    /// Another provider made it.
    #[error("the token is another issuer's")]
    Issuer,
    /// It is meant for somebody else.
    #[error("the token is meant for another client")]
    Audience,
    /// Somebody else asked for it.
    #[error("the token was given to another client")]
    Party,
    /// It has expired, or does not say when it does.
    #[error("the token has expired")]
    Expired,
    /// It is not valid yet, or does not say when it was made.
    #[error("the token is not valid yet")]
    Early,
    /// It belongs to another sign-in.
    #[error("the token belongs to another sign-in")]
    Nonce,
    /// It names nobody.
    #[error("the token names nobody")]
    Subject,
    /// It is no logout token, or cannot be told from another.
    #[error("the token is no logout token")]
    Event,
}

/// Judges the claims of an ID token, given the nonce of the sign-in it has to belong to.
///
/// # Errors
/// See [`ClaimFault`].
pub fn judge(claims: &Claims, config: &OidcConfig, nonce: &str, now: Timestamp) -> Result<(), ClaimFault> {
    if text(claims, "iss") != Some(config.issuer.as_str()) {
        return Err(ClaimFault::Issuer);
    }
    let (mine, others) = audience(claims, &config.client_id);
    if !mine {
        return Err(ClaimFault::Audience);
    }
    match claims.get("azp") {
        Some(party) if party.as_str() != Some(&config.client_id) => return Err(ClaimFault::Party),
        None if others => return Err(ClaimFault::Party),
        _ => {}
    }
    let now = now.as_second() as f64;
    let moment = |name: &str| claims.get(name).and_then(Value::as_f64);
    if moment("exp").is_none_or(|at| at + SKEW_S <= now) {
        return Err(ClaimFault::Expired);
    }
    let is_early = |at: f64| at - SKEW_S > now;
    if moment("iat").is_none_or(is_early)
        || (claims.contains_key("nbf") && moment("nbf").is_none_or(is_early))
    {
        return Err(ClaimFault::Early);
    }
    let given = text(claims, "nonce").unwrap_or_default();
    if !bool::from(given.as_bytes().ct_eq(nonce.as_bytes())) {
        return Err(ClaimFault::Nonce);
    }
    subject(claims).map(|_| ())
}

/// Returns the user's name at the provider.
///
/// # Errors
/// There is none, or none that can be.
pub fn subject(claims: &Claims) -> Result<&str, ClaimFault> {
    let subject = text(claims, "sub").filter(|subject| (1..=SUBJECT_BYTES_MAX).contains(&subject.len()));
    subject.filter(|subject| !subject.chars().any(char::is_control)).ok_or(ClaimFault::Subject)
}

/// Tells whether the claims say anything about groups or roles, where the configuration asks for it.
pub fn has_roles(claims: &Claims, mapping: &Mapping) -> bool {
    at(claims, &mapping.role).is_some()
}

/// Returns who the claims are about, with the most that any of their groups allows; `None`: no role.
pub fn identity(claims: &Claims, issuer: &str, mapping: &Mapping) -> Option<Identity> {
    let groups: Vec<&str> = match at(claims, &mapping.role) {
        Some(Value::String(group)) => vec![group],
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mapped = |role: &Role| {
        let mut rows = mapping.role_map.iter();
        rows.any(|(group, means)| means == role && groups.contains(&group.as_str()))
    };
    let role = Role::ALL.into_iter().find(mapped).or(mapping.default_role)?;
    let subject = subject(claims).ok()?.to_owned();
    let named = at(claims, &mapping.name).and_then(first_text);
    let name = named.or_else(|| NAMES.iter().find_map(|name| claims.get(*name).and_then(first_text)));
    let name = printable(name.unwrap_or(&subject));
    let session = text(claims, "sid").filter(|sid| sid.len() <= SUBJECT_BYTES_MAX).map(str::to_owned);
    let (issuer, mapped_by) = (issuer.to_owned(), mapping.digest());
    Some(Identity { issuer, subject, name, role, session, until: None, mapped_by })
}

/// Returns a text, or the first of a list of texts.
fn first_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.as_array()?.first()?.as_str())
}

/// Tells whether the token is meant for us, and whether for others too.
pub(super) fn audience(claims: &Claims, client_id: &str) -> (bool, bool) {
    match claims.get("aud") {
        Some(Value::String(one)) => (one == client_id, false),
        Some(Value::Array(all)) => (all.iter().any(|one| one.as_str() == Some(client_id)), all.len() > 1),
        _ => (false, false),
    }
}

pub(super) fn text<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

/// Returns the claim of a name; where there is none, what lies at the end of its path of dots.
fn at<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(path) {
        return Some(found);
    }
    let mut parts = path.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Returns a name without what would move or hide the text around it.
fn printable(name: &str) -> String {
    let hides = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    name.chars().filter(|c| !hides(*c)).take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::url::Endpoint;

    const NOW: i64 = 1_000_000;

    fn config() -> OidcConfig {
        OidcConfig {
            issuer: Endpoint::parse("https://id.example").unwrap(),
            client_id: "gate".to_owned(),
            client_secret: None,
            scopes: Vec::new(),
            redirect_url: Endpoint::parse("https://gate.example/auth/callback").unwrap(),
            signed_out_url: None,
            mapping: Mapping {
                name: "email".to_owned(),
                role: "realm.roles".to_owned(),
                role_map: vec![
                    ("watchers".to_owned(), Role::Auditor),
                    ("bosses".to_owned(), Role::Admin),
                    ("bots".to_owned(), Role::Service),
                ],
                default_role: None,
            },
            ca_file: None,
        }
    }

    fn claims(change: Value) -> Claims {
        let mut claims = json!({
            "iss": "https://id.example", "aud": "gate", "sub": "u1", "nonce": "n", "exp": NOW + 300, "iat": NOW,
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }

    #[test]
    fn a_token_is_believed_only_where_every_claim_is_right() {
        let cases = [
            (json!({}), None),
            (json!({ "aud": ["gate"] }), None),
            (json!({ "aud": ["gate", "other"], "azp": "gate" }), None),
            (json!({ "azp": "gate" }), None),
            (json!({ "exp": NOW - 59 }), None),
            (json!({ "iat": NOW + 60, "nbf": NOW + 60 }), None),
            (json!({ "iss": "https://id.example/" }), Some(ClaimFault::Issuer)),
            (json!({ "iss": "https://ID.example" }), Some(ClaimFault::Issuer)),
            (json!({ "iss": null }), Some(ClaimFault::Issuer)),
            (json!({ "aud": "other" }), Some(ClaimFault::Audience)),
            (json!({ "aud": ["other"] }), Some(ClaimFault::Audience)),
            (json!({ "aud": [] }), Some(ClaimFault::Audience)),
            (json!({ "aud": null }), Some(ClaimFault::Audience)),
            (json!({ "aud": { "gate": 1 } }), Some(ClaimFault::Audience)),
            (json!({ "aud": ["gate", "other"] }), Some(ClaimFault::Party)),
            (json!({ "aud": ["gate", "other"], "azp": "other" }), Some(ClaimFault::Party)),
            (json!({ "azp": "other" }), Some(ClaimFault::Party)),
            (json!({ "azp": 7 }), Some(ClaimFault::Party)),
            (json!({ "exp": NOW - 60 }), Some(ClaimFault::Expired)),
            (json!({ "exp": null }), Some(ClaimFault::Expired)),
            (json!({ "exp": "2000000000" }), Some(ClaimFault::Expired)),
            (json!({ "iat": NOW + 61 }), Some(ClaimFault::Early)),
            (json!({ "iat": null }), Some(ClaimFault::Early)),
            (json!({ "nbf": NOW + 61 }), Some(ClaimFault::Early)),
            (json!({ "nbf": "x" }), Some(ClaimFault::Early)),
            (json!({ "nonce": "m" }), Some(ClaimFault::Nonce)),
            (json!({ "nonce": null }), Some(ClaimFault::Nonce)),
            (json!({ "sub": "" }), Some(ClaimFault::Subject)),
            (json!({ "sub": "a\nb" }), Some(ClaimFault::Subject)),
            (json!({ "sub": "a".repeat(256) }), Some(ClaimFault::Subject)),
            (json!({ "sub": null }), Some(ClaimFault::Subject)),
        ];
        for (change, fault) in cases {
            let now = Timestamp::from_second(NOW).unwrap();
            let found = judge(&claims(change.clone()), &config(), "n", now).err();
            assert_eq!(found, fault, "{change}");
        }
    }

    #[test]
    fn the_strongest_role_of_all_groups_counts() {
        let role = |change: Value, config: &OidcConfig| {
            identity(&claims(change), "https://id.example", &config.mapping).map(|found| found.role)
        };
        let config = config();
        let cases = [
            (json!({ "realm": { "roles": ["watchers", "bosses"] } }), Some(Role::Admin)),
            (json!({ "realm": { "roles": "watchers" } }), Some(Role::Auditor)),
            (json!({ "realm.roles": ["bots"] }), Some(Role::Service)),
            (json!({ "realm": { "roles": ["Bosses", 7, null] } }), None),
            (json!({ "realm": { "roles": { "bosses": true } } }), None),
            (json!({ "realm": "bosses" }), None),
            (json!({ "roles": ["bosses"] }), None),
            (json!({}), None),
        ];
        for (change, expected) in cases {
            assert_eq!(role(change.clone(), &config), expected, "{change}");
        }
        let mut lenient = config;
        lenient.mapping.default_role = Some(Role::Analyst);
        assert_eq!(role(json!({}), &lenient), Some(Role::Analyst));
        assert_eq!(role(json!({ "realm": { "roles": ["bots"] } }), &lenient), Some(Role::Service));
    }

    #[test]
    fn whatever_may_change_a_role_changes_the_digest_of_a_mapping() {
        let mapping = config().mapping;
        let named = Mapping { name: "sub".to_owned(), ..mapping.clone() };
        let turned =
            Mapping { role_map: mapping.role_map.iter().rev().cloned().collect(), ..mapping.clone() };
        for same in [named, turned] {
            assert_eq!(same.digest(), mapping.digest(), "{same:?}");
        }
        let fewer = Mapping { role_map: mapping.role_map[1..].to_vec(), ..mapping.clone() };
        let mut other = mapping.clone();
        other.role_map[1].1 = Role::Operator;
        let elsewhere = Mapping { role: "realm".to_owned(), ..mapping.clone() };
        let lenient = Mapping { default_role: Some(Role::Analyst), ..mapping.clone() };
        for changed in [fewer, other, elsewhere, lenient] {
            assert_ne!(changed.digest(), mapping.digest(), "{changed:?}");
        }
    }

    #[test]
    fn names_are_for_people() {
        let mut config = config();
        config.mapping.default_role = Some(Role::Agent);
        let name =
            |change: Value| identity(&claims(change), "https://id.example", &config.mapping).unwrap().name;
        assert_eq!(name(json!({ "email": "a@b.example", "name": "A" })), "a@b.example");
        assert_eq!(name(json!({ "name": "Z\u{202e}oe\n" })), "Zoe");
        assert_eq!(name(json!({})), "u1");
        assert_eq!(name(json!({ "email": "x".repeat(500) })).len(), 128);
    }
}
