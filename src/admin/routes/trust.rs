//! What the deployment vouches for, and with which keys.

use super::Route;
use super::by;
use super::get;
use super::post;
use crate::admin::openapi::schema;
use crate::admin::resource::signing;

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
    ]
}
