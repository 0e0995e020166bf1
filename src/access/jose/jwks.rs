//! The keys of others, as they publish them (RFC 7517), and what they signed (RFC 7515).
//!
//! A token is verified with a key of the set alone: what its own header says about keys (`jwk`, `jku`, `x5c`,
//! `x5u`) is never looked at. The algorithm has to be one of the asymmetric ones and fit the key's kind, so a
//! public key is never taken for a shared secret, and `none` is no algorithm at all.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::Validation;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::jwk::KeyOperations;
use jsonwebtoken::jwk::PublicKeyUse;
use serde::Deserialize;
use serde_json::Value;

use super::Scheme;
use super::TOKEN_BYTES_MAX;
use super::provide;

/// The most keys of a set that are kept; further ones are passed over.
pub const SET_KEYS_MAX: usize = 64;

/// Why a token of somebody else is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwksFault {
    /// It is no compact JWS whose payload is an object.
    #[error("the token is malformed")]
    Malformed,
    /// It is not signed with one of the algorithms that are taken.
    #[error("the token is not signed in a way that is taken")]
    Algorithm,
    /// The set has no key of that name, or of that kind.
    #[error("the token names a key that is not published")]
    UnknownKey,
    /// The signature is not that key's.
    #[error("the token's signature is wrong")]
    Forged,
}

/// The set is no JSON of that form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a set of keys")]
pub struct NoJwkSet;

/// Keys that somebody published.
#[derive(Clone, Default)]
pub struct JwkSet {
    keys: Vec<PublicKey>,
}

#[derive(Clone)]
struct PublicKey {
    id: Option<String>,
    algorithm: Option<String>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Written {
    keys: Vec<Value>,
}

/// What of a token's header decides how it is verified.
#[derive(Deserialize)]
struct Head {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

impl JwkSet {
    /// Reads a set; keys of kinds that are not taken, or not for signatures, are passed over.
    ///
    /// # Errors
    /// The bytes are no set.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoJwkSet> {
        let written: Written = serde_json::from_slice(bytes).map_err(|_| NoJwkSet)?;
        let keys = written.keys.into_iter().filter_map(PublicKey::read).take(SET_KEYS_MAX);
        Ok(Self { keys: keys.collect() })
    }

    /// Returns the claims of a token that one of the keys has signed. What they say is not judged here.
    ///
    /// # Errors
    /// See [`JwksFault`].
    pub fn verify(&self, token: &str) -> Result<serde_json::Map<String, Value>, JwksFault> {
        provide();
        let head = Head::of(token)?;
        let algorithm: Algorithm = head.alg.parse().map_err(|_| JwksFault::Algorithm)?;
        let scheme = Scheme::of(algorithm).ok_or(JwksFault::Algorithm)?;
        if head.crit.is_some() {
            return Err(JwksFault::Malformed);
        }
        let fits = |key: &&PublicKey| {
            let named = head.kid.is_none() || key.id == head.kid;
            let meant = key.algorithm.as_ref().is_none_or(|name| *name == head.alg);
            named && meant && key.key.family() == scheme.family()
        };
        let mut fault = JwksFault::UnknownKey;
        for key in self.keys.iter().filter(fits) {
            match jsonwebtoken::decode(token, &key.key, &validation(algorithm)) {
                Ok(found) => return Ok(found.claims),
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {
                    fault = JwksFault::Forged
                }
                Err(_) => return Err(JwksFault::Malformed),
            }
        }
        Err(fault)
    }
}

impl std::fmt::Debug for JwkSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

impl PublicKey {
    fn read(written: Value) -> Option<Self> {
        let algorithm = written.get("alg").and_then(Value::as_str).map(str::to_owned);
        let jwk: Jwk = serde_json::from_value(written).ok()?;
        let signs = match &jwk.common.public_key_use {
            None | Some(PublicKeyUse::Signature) => true,
            Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_)) => false,
        };
        let operations = jwk.common.key_operations.as_ref();
        let verifies = operations.is_none_or(|all| all.contains(&KeyOperations::Verify));
        let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| signs && verifies)?;
        Some(Self { id: jwk.common.key_id, algorithm, key })
    }
}

impl Head {
    fn of(token: &str) -> Result<Self, JwksFault> {
        if token.len() > TOKEN_BYTES_MAX || token.split('.').count() != 3 {
            return Err(JwksFault::Malformed);
        }
        let text = token.split('.').next().unwrap_or_default();
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| JwksFault::Malformed)?;
        serde_json::from_slice(&bytes).map_err(|_| JwksFault::Malformed)
    }
}

/// Leaves all claims to whoever asks: they have the clock.
fn validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::SigningKey;
    use super::*;

    fn published(key: &SigningKey, more: Value) -> Value {
        let mut jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(key.public()) });
        jwk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        jwk
    }

    fn set(keys: &[Value]) -> JwkSet {
        JwkSet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_token_is_verified_with_the_key_it_names() {
        let (one, two) = (SigningKey::generate(), SigningKey::generate());
        let keys = set(&[published(&one, json!({ "kid": "1" })), published(&two, json!({ "kid": "2" }))]);
        let token = |key: &SigningKey, id| key.sign(&json!({ "sub": "a" }), id);
        assert_eq!(keys.verify(&token(&one, Some("1"))).unwrap()["sub"], "a");
        assert_eq!(keys.verify(&token(&two, None)).unwrap()["sub"], "a");
        assert_eq!(keys.verify(&token(&one, Some("2"))), Err(JwksFault::Forged));
        assert_eq!(keys.verify(&token(&one, Some("3"))), Err(JwksFault::UnknownKey));
        assert_eq!(JwkSet::default().verify(&token(&one, None)), Err(JwksFault::UnknownKey));
    }

    #[test]
    fn a_key_serves_only_what_it_is_meant_for() {
        let key = SigningKey::generate();
        let token = key.sign(&json!({ "sub": "a" }), Some("1"));
        let verified = |more: Value| set(&[published(&key, more)]).verify(&token).map(|_| ());
        assert_eq!(verified(json!({ "kid": "1", "use": "sig", "alg": "EdDSA" })), Ok(()));
        for more in [
            json!({ "kid": "1", "use": "enc" }),
            json!({ "kid": "1", "alg": "RS256" }),
            json!({ "kid": "1", "key_ops": ["encrypt"] }),
            json!({ "kid": "other" }),
        ] {
            assert_eq!(verified(more.clone()), Err(JwksFault::UnknownKey), "{more}");
        }
    }

    #[test]
    fn no_symmetric_algorithm_and_no_odd_header_is_taken() {
        let key = SigningKey::generate();
        let keys =
            set(&[published(&key, json!({ "kid": "1" })), json!({ "kty": "oct", "k": "AAAA", "kid": "2" })]);
        let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let token = |head: Value| format!("{}.{}.AAAA", encode(head), encode(json!({})));
        for algorithm in ["none", "None", "HS256", "HS384", "HS512", "", "RS1", "dir"] {
            let found = keys.verify(&token(json!({ "alg": algorithm, "kid": "1" })));
            assert_eq!(found, Err(JwksFault::Algorithm), "{algorithm}");
        }
        // A key in the header, or behind an address in it, is nobody's.
        let own = json!({ "alg": "EdDSA", "jwk": published(&key, json!({})), "jku": "https://evil.example" });
        assert_eq!(keys.verify(&token(own)), Err(JwksFault::Forged));
        assert_eq!(keys.verify(&token(json!({ "alg": "RS256", "kid": "1" }))), Err(JwksFault::UnknownKey));
        let odd = [
            token(json!({ "alg": "EdDSA", "crit": ["x"] })),
            token(json!({ "kid": "1" })),
            token(json!(["EdDSA"])),
            format!("{}.e30", encode(json!({ "alg": "EdDSA" }))),
            format!("{}.e30..", encode(json!({ "alg": "EdDSA" }))),
            "a.b.c".to_owned(),
            "a".repeat(TOKEN_BYTES_MAX + 1),
        ];
        for token in odd {
            assert_eq!(keys.verify(&token), Err(JwksFault::Malformed), "{token:.40}");
        }
    }

    #[test]
    fn a_set_may_hold_what_is_not_known() {
        let odd =
            json!({ "keys": [{ "kty": "new" }, 7, { "kty": "RSA", "n": "!", "e": "AQAB" }], "more": 1 });
        assert!(JwkSet::parse(odd.to_string().as_bytes()).unwrap().keys.is_empty());
        assert!(JwkSet::parse(b"[]").is_err() && JwkSet::parse(b"").is_err());
    }
}
