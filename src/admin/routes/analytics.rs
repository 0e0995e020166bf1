//! What was used, what it cost, and what is out of the ordinary.

use super::Route;
use super::by;
use super::get;
use crate::admin::openapi::schema;
use crate::admin::resource::analytics;
use crate::admin::resource::anomalies;

pub(super) fn rows() -> Vec<Route> {
    let of_period =
        |path, handler, summary| get(path, "analytics:read", handler, summary).query(&analytics::PARAMETERS);
    vec![
        of_period(
            "/api/v1/analytics/usage",
            by!(analytics::usage),
            "Tells what was used, by caller, model, route and day",
        )
        .gives(schema::<analytics::UsageReport>()),
        of_period(
            "/api/v1/analytics/cost",
            by!(analytics::cost),
            "Tells what it cost, at the prices of the day",
        )
        .gives(schema::<analytics::CostReport>()),
        of_period(
            "/api/v1/analytics/anomalies",
            by!(anomalies::anomalies),
            "Lists hours that lie far from comparable ones, with the figures that say so",
        )
        .gives(schema::<anomalies::AnomalyList>()),
        of_period(
            "/api/v1/analytics/dashboard",
            by!(analytics::dashboard),
            "Gives every hour's figures, and totals",
        )
        .gives(schema::<analytics::Dashboard>()),
    ]
}
