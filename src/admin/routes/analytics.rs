//! What was used, what it cost, what is out of the ordinary; and what keys may use.

use super::Route;
use super::by;
use super::delete;
use super::get;
use super::put;
use crate::admin::openapi::schema;
use crate::admin::resource::analytics;
use crate::admin::resource::anomalies;
use crate::admin::resource::budgets;

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
        get(
            "/api/v1/keys/{id}/budget",
            "keys:read",
            by!(budgets::read),
            "Tells how much a key may use, and has used",
        )
        .gives(schema::<budgets::BudgetReport>()),
        put("/api/v1/keys/{id}/budget", "keys:write", by!(budgets::put), "Sets how much a key may use")
            .takes(schema::<budgets::BudgetLimits>())
            .gives(schema::<budgets::BudgetReport>()),
        delete(
            "/api/v1/keys/{id}/budget",
            "keys:write",
            by!(budgets::remove),
            "Lets a key use as much as it likes",
        )
        .gives(schema::<budgets::Unlimited>()),
        of_period(
            "/api/v1/analytics/dashboard",
            by!(analytics::dashboard),
            "Gives every hour's figures, and totals",
        )
        .gives(schema::<analytics::Dashboard>()),
    ]
}
