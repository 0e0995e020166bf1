//! Attestations: what the gateway says of an agent, signed, for whoever has the deployment's public keys.
//!
//! An attestation is a DSSE envelope (github.com/secure-systems-lab/dsse, v1.0.2): its payload is JSON, its signature
//! Ed25519 over the pre-authentication encoding of payload type and payload, its `keyid` the `kid` of a key in
//! `/.well-known/jwks.json`. Nothing else is needed to verify one: what is shown beside the envelope stands in the
//! payload too, and counts only from there. Times are of whole milliseconds, as answers tell them: what is shown is, to
//! the letter, what was signed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::statement::Statement;
use crate::access::signing::KeyRing;
use crate::clock::rfc3339;
use crate::id::Ulid;
use crate::store::Record;

/// The media type of payloads.
pub const PAYLOAD_TYPE: &str = "application/vnd.portcullis.attestation+json";

/// An attestation as it is kept, and given out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attestation {
    /// Its id.
    pub id: String,
    /// Whom it is about.
    pub agent_id: String,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// Until when it counts.
    pub expires_at: Timestamp,
    /// What it says, as in the payload.
    pub statements: Vec<Value>,
    /// The payload, in base 64.
    pub payload: String,
    /// The `kid` of the key that signed.
    pub key_id: String,
    /// The signature, in base 64.
    pub signature: String,
}

/// What is signed.
#[derive(Serialize)]
struct Payload<'a> {
    id: &'a str,
    agent_id: &'a str,
    issuer: &'a str,
    issued_at: String,
    expires_at: String,
    statements: &'a [Value],
}

impl Record for Attestation {
    const VERSION: u32 = 1;
}

impl Attestation {
    /// Issues an attestation; `issuer` is the node that saw what it says. Its times are cut to milliseconds.
    pub(super) fn issue(
        ring: &KeyRing,
        id: Ulid,
        (agent_id, issuer): (&str, &str),
        statements: &[Statement],
        (issued_at, expires_at): (Timestamp, Timestamp),
    ) -> Self {
        let id = id.to_string();
        let values = statements.iter().map(|one| serde_json::to_value(one).unwrap_or_default());
        let statements: Vec<Value> = values.collect();
        let (issued_at, expires_at) = (to_millisecond(issued_at), to_millisecond(expires_at));
        let payload = Payload {
            id: &id,
            agent_id,
            issuer,
            issued_at: rfc3339(issued_at),
            expires_at: rfc3339(expires_at),
            statements: &statements,
        };
        let payload = serde_json::to_vec(&payload).unwrap_or_default();
        let key = ring.active();
        let signature = key.key.sign_bytes(&encoded(PAYLOAD_TYPE, &payload));
        Self {
            agent_id: agent_id.to_owned(),
            issued_at,
            expires_at,
            payload: STANDARD.encode(&payload),
            key_id: key.id,
            signature: STANDARD.encode(signature),
            statements,
            id,
        }
    }
}

/// Returns a moment without what is finer than a millisecond.
fn to_millisecond(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

/// Returns the pre-authentication encoding of DSSE.
fn encoded(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_as_in_the_example_of_the_specification() {
        let known = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(encoded("http://example.com/HelloWorld", b"hello world"), known);
    }
}
