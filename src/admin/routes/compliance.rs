//! How the deployment stands against frameworks of controls.

use super::Route;
use super::by;
use super::get;
use crate::admin::openapi::schema;
use crate::admin::resource::compliance;
use crate::admin::resource::compliance::evidence;

pub(super) fn rows() -> Vec<Route> {
    vec![
        get(
            "/api/v1/compliance",
            "compliance:read",
            by!(compliance::report),
            "Judges the deployment by a framework of controls, from live evidence",
        )
        .query(&compliance::PARAMETERS)
        .gives(schema::<compliance::ComplianceAnswer>())
        .also(&["text/html"]),
        get(
            "/api/v1/compliance/live",
            "compliance:read",
            by!(compliance::live),
            "Tells how the deployment stands against all frameworks at this moment",
        )
        .gives(schema::<compliance::LiveCompliance>()),
        get(
            "/api/v1/compliance/evidence",
            "compliance:read",
            by!(evidence::show),
            "Shows what one check goes by, thing by thing",
        )
        .query(&evidence::PARAMETERS)
        .gives(schema::<evidence::CheckEvidence>()),
    ]
}
