//! Scanning and screening of content.

use super::Route;
use super::by;
use super::post;
use crate::admin::openapi::schema;
use crate::admin::resource::scan;
use crate::admin::resource::screen;

pub(super) fn rows() -> Vec<Route> {
    let scan = |path, summary| {
        post(path, "scan:run", by!(scan::scan), summary)
            .takes(schema::<scan::ScanRequest>())
            .gives(schema::<scan::ScanResult>())
    };
    let screen = |path, handler, summary| {
        post(path, "scan:run", handler, summary)
            .takes(schema::<screen::ScreenRequest>())
            .gives(schema::<screen::ScreenResult>())
    };
    vec![
        scan("/v1/scan", "Finds the threats in a text"),
        scan("/api/v1/scan", "Gives the same as /v1/scan"),
        screen("/api/v1/screen", by!(screen::prompt), "Tells what a policy does about a prompt"),
        screen("/api/v1/screen/response", by!(screen::response), "Tells what a policy does about an answer"),
    ]
}
