//! Legal holds and the requests of data subjects.

use super::Route;
use super::by;
use super::delete;
use super::get;
use super::post;
use crate::admin::openapi::list;
use crate::admin::openapi::schema;
use crate::admin::resource::dsar;
use crate::admin::resource::legal_holds;

pub(super) fn rows() -> Vec<Route> {
    vec![
        post("/api/v1/legal-holds", "holds:write", by!(legal_holds::create), "Takes a legal hold")
            .created()
            .takes(schema::<legal_holds::HoldRequest>())
            .gives(schema::<legal_holds::HoldEntry>()),
        get(
            "/api/v1/legal-holds",
            "holds:read",
            by!(legal_holds::list),
            "Lists legal holds, released ones too",
        )
        .gives(list::<legal_holds::HoldEntry>()),
        get("/api/v1/legal-holds/{id}", "holds:read", by!(legal_holds::read), "Describes one legal hold")
            .gives(schema::<legal_holds::HoldEntry>()),
        delete("/api/v1/legal-holds/{id}", "holds:write", by!(legal_holds::release), "Releases a legal hold")
            .gives(schema::<legal_holds::Released>()),
        get(
            "/api/v1/legal-holds/check/{entityID}",
            "holds:read",
            by!(legal_holds::check),
            "Tells whether an entity is under a legal hold",
        )
        .gives(schema::<legal_holds::UnderHold>()),
        post("/api/v1/dsar/export", "dsar:run", by!(dsar::export), "Exports what is known of an entity")
            .takes(schema::<dsar::SubjectRequest>())
            .gives(schema::<dsar::Export>()),
        post("/api/v1/dsar/erase", "dsar:run", by!(dsar::erase), "Erases an entity")
            .takes(schema::<dsar::SubjectRequest>())
            .gives(schema::<dsar::Erasure>())
            .refuses(409, schema::<dsar::Blocked>()),
    ]
}
