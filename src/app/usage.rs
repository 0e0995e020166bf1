//! What counts use, and what it costs, in the background.

use std::path::Path;
use std::sync::Arc;

use pingora::server::Server;

use super::task::task;
use crate::access::budget::Budgets;
use crate::clock::Clock;
use crate::govern::analytics::Meter;
use crate::govern::analytics::price;
use crate::telemetry::Telemetry;

/// Lets figures and budgets be written while the process runs.
pub(super) fn add_tasks(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    (meter, sure): (&Arc<Meter>, Arc<dyn Clock>),
    budgets: Arc<Budgets>,
) {
    let meter = Arc::clone(meter);
    server.add_service(task("usage", telemetry, None, move |shutdown| meter.run(sure, shutdown)));
    server.add_service(task("budgets", telemetry, None, move |shutdown| budgets.run(shutdown)));
}

/// Reads the prices again; faulty ones change nothing.
pub(super) fn reload_prices(meter: &Meter, path: Option<&Path>) {
    match price::load(path) {
        Ok(prices) => meter.set_prices(prices),
        Err(faults) => {
            for fault in faults {
                tracing::error!(%fault, "the prices could not be reloaded, the old ones still count");
            }
        }
    }
}
