//! What the deployment thinks of agents, what it vouches for, and with which keys.

use super::Route;
use super::by;
use super::get;
use super::post;
use crate::admin::openapi::schema;
use crate::admin::resource::signing;
use crate::admin::resource::trust;

pub(super) fn rows() -> Vec<Route> {
    vec![
        get("/.well-known/jwks.json", "", by!(signing::published), "Gives the public keys of the deployment")
            .public()
            .gives(schema::<signing::JwkSet>()),
        get("/api/v1/signing/keys", "keys:read", by!(signing::list), "Tells how old the signing keys are")
            .gives(schema::<signing::SigningKeyList>()),
        post("/api/v1/signing/rotate", "keys:write", by!(signing::rotate), "Makes a new signing key active")
            .takes(schema::<signing::Rotation>())
            .gives(schema::<signing::Rotated>()),
        get("/api/v1/trust/health", "", by!(trust::health), "Tells that the trust framework lives")
            .public()
            .exempt()
            .gives(schema::<trust::TrustHealth>()),
        get("/api/v1/trust/score", "trust:read", by!(trust::score), "Gives an agent's or a session's score")
            .query(&["agent", "session", "explain"])
            .gives(schema::<trust::ScoreEntry>())
            .maybe(),
        get("/api/v1/trust/sessions", "trust:read", by!(trust::sessions), "Lists sessions of agents")
            .query(&["agent", "active"])
            .gives(schema::<trust::AgentSessionList>())
            .maybe(),
        get(
            "/api/v1/trust/attestations",
            "trust:read",
            by!(trust::attestations),
            "Lists signed attestations, oldest first",
        )
        .query(&["agent", "since", "limit"])
        .gives(schema::<trust::AttestationList>())
        .maybe(),
        get(
            "/api/v1/trust/attestations/latest",
            "trust:read",
            by!(trust::latest),
            "Gives the newest attestation of an agent",
        )
        .query(&["agent"])
        .gives(schema::<trust::AttestationEntry>())
        .maybe(),
    ]
}
