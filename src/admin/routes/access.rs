//! Who may call: keys, the licence and what it entitles to.

use super::Route;
use super::by;
use super::delete;
use super::get;
use super::patch;
use super::post;
use crate::admin::openapi::schema;
use crate::admin::resource::keys;
use crate::admin::resource::license;

pub(super) fn rows() -> Vec<Route> {
    vec![
        get("/api/v1/keys", "keys:read", by!(keys::list), "Lists the API keys the caller may see")
            .gives(schema::<keys::KeyList>()),
        post("/api/v1/keys", "keys:write", by!(keys::create), "Makes an API key, and shows it once")
            .created()
            .takes(schema::<keys::KeyRequest>())
            .gives(schema::<keys::CreatedKey>()),
        get("/api/v1/keys/{id}", "keys:read", by!(keys::read), "Describes one API key")
            .gives(schema::<keys::KeyEntry>()),
        patch("/api/v1/keys/{id}", "keys:write", by!(keys::change), "Changes what an API key is and may")
            .takes(schema::<keys::KeyPatch>())
            .gives(schema::<keys::KeyEntry>()),
        post(
            "/api/v1/keys/{id}/rotate",
            "keys:write",
            by!(keys::rotate),
            "Replaces the text of an API key, shown once; the one before counts for the overlap",
        )
        .takes(schema::<keys::KeyRotation>())
        .gives(schema::<keys::CreatedKey>()),
        delete("/api/v1/keys/{id}", "keys:write", by!(keys::revoke), "Revokes an API key")
            .gives(schema::<keys::Revoked>()),
        get("/api/v1/license/status", "status:read", by!(license::status), "Tells how the licence stands")
            .gives(schema::<license::LicenseStatus>()),
        get("/api/v1/tier", "status:read", by!(license::tier), "Gives the tier in force and what it enables")
            .gives(schema::<license::TierReport>()),
        get("/api/v1/sla", "status:read", by!(license::sla), "Gives objectives and what was measured")
            .gives(schema::<license::SlaReport>()),
    ]
}
