//! `/.well-known/jwks.json` and `/api/v1/signing/*`: the keys that tokens and attestations are signed with.

use http::HeaderValue;
use http::header;
use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::signing::PublicKey;
use crate::access::signing::RingError;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;

/// How long others may keep the set: a new key is known everywhere after that time.
const KEEP: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// The public keys, as RFC 7517 has them.
#[derive(Serialize, ToSchema)]
pub struct JwkSet {
    /// The keys that count, the active one first.
    pub keys: Vec<Jwk>,
}

/// One public key (RFC 8037).
#[derive(Serialize, ToSchema)]
pub struct Jwk {
    /// `OKP`.
    pub kty: &'static str,
    /// `Ed25519`.
    pub crv: &'static str,
    /// `sig`.
    #[serde(rename = "use")]
    pub used_for: &'static str,
    /// `EdDSA`.
    pub alg: &'static str,
    /// The key's thumbprint (RFC 7638).
    pub kid: String,
    /// The key's 32 bytes in base64url.
    pub x: String,
}

/// What is known of the signing keys; never the keys.
#[derive(Serialize, ToSchema)]
pub struct SigningKeyList {
    /// The keys that count, the active one first.
    pub keys: Vec<SigningKeyEntry>,
    /// How many.
    pub total: usize,
}

/// One signing key.
#[derive(Serialize, ToSchema)]
pub struct SigningKeyEntry {
    /// The key's thumbprint, which signatures carry.
    pub kid: String,
    /// `active`, or `retired`: it verifies what it signed until its overlap is over.
    pub status: &'static str,
    /// When it was made.
    pub created_at: String,
    /// When it stopped signing.
    pub retired_at: Option<String>,
}

/// How to rotate.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// True: the other keys are withdrawn at once, and what they signed counts no more.
    pub withdraw: bool,
}

/// A key that became active.
#[derive(Serialize, ToSchema)]
pub struct Rotated {
    /// `rotated` or `withdrawn`.
    pub status: &'static str,
    /// The new key's thumbprint.
    pub kid: String,
}

/// `GET /.well-known/jwks.json`.
pub async fn published(call: Call) -> Answer {
    let keys = call.office.signing.public(call.office.clock.now());
    let jwk = |key: PublicKey| Jwk {
        kty: "OKP",
        crv: "Ed25519",
        used_for: "sig",
        alg: "EdDSA",
        kid: key.id,
        x: key.x,
    };
    let mut answer = ok(&JwkSet { keys: keys.into_iter().map(jwk).collect() })?;
    answer.headers_mut().insert(header::CACHE_CONTROL, KEEP);
    Ok(answer)
}

/// `GET /api/v1/signing/keys`.
pub async fn list(call: Call) -> Answer {
    let keys = call.office.signing.public(call.office.clock.now());
    let entry = |key: PublicKey| SigningKeyEntry {
        kid: key.id,
        status: if key.retired_at.is_some() { "retired" } else { "active" },
        created_at: rfc3339(key.created_at),
        retired_at: key.retired_at.map(rfc3339),
    };
    ok(&SigningKeyList { total: keys.len(), keys: keys.into_iter().map(entry).collect() })
}

/// `POST /api/v1/signing/rotate`.
pub async fn rotate(call: Call) -> Answer {
    let Rotation { withdraw } = call.json()?;
    call.ensure_recordable()?;
    let (office, now) = (call.office.clone(), call.office.clock.now());
    let made = tokio::task::spawn_blocking(move || match withdraw {
        true => office.signing.withdraw(now).inspect(|_| {
            // What the withdrawn keys attested is attested anew; where that fails now, it is tried again every second.
            if let Err(error) = office.trust.flush(now) {
                tracing::warn!(%error, "agents could not be attested anew");
            }
        }),
        false => office.signing.rotate(now),
    });
    let kid = made.await.map_err(|_| call.office.panicked())??;
    let (status, message) = match withdraw {
        true => ("withdrawn", "all signing keys were withdrawn and a new one made"),
        false => ("rotated", "a new signing key was made"),
    };
    let mut event = call.event("signing_key_rotated", message.to_owned());
    event.entity = Some(kid.clone());
    call.office.record(event).await;
    ok(&Rotated { status, kid })
}

impl From<RingError> for ApiError {
    fn from(error: RingError) -> Self {
        match error {
            RingError::TooMany => Self::Conflict(error.to_string()),
            RingError::Sealed | RingError::Store(_) => Self::Unavailable,
        }
    }
}
