//! `/metrics`, `/api/v1/metrics`: everything that is counted, for Prometheus.

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::text;

/// `GET /metrics`.
pub async fn metrics(call: Call) -> Answer {
    text("text/plain; version=0.0.4; charset=utf-8", call.office.telemetry.metrics.render())
}
