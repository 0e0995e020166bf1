//! The collector of the configuration, and what sends to it.

use std::sync::Arc;

use pingora::server::Server;

use super::VERSION;
use super::state::State;
use super::state::secret_at;
use super::task::task;
use crate::config::Config;
use crate::otlp;
use crate::otlp::Exporting;
use crate::otlp::Origin;
use crate::otlp::Otlp;
use crate::otlp::OtlpError;
use crate::telemetry::Telemetry;

/// Opens what exchanges are told to, where a collector is named.
///
/// # Errors
/// See [`OtlpError`].
pub(super) fn open(
    config: &Config,
    state: &State,
    telemetry: &Arc<Telemetry>,
) -> Result<Option<(Otlp, Exporting)>, OtlpError> {
    let origin = Origin {
        version: VERSION,
        node: state.node_id.clone(),
        models: config.telemetry.models.clone(),
        read_secret: &secret_at,
    };
    let opened = config.otlp.as_ref().map(|settings| otlp::open(settings, origin, &telemetry.metrics));
    opened.transpose()
}

/// Adds what sends to what the server runs.
pub(super) fn add(server: &mut Server, exporting: Option<Exporting>, telemetry: &Arc<Telemetry>) {
    let Some(exporting) = exporting else { return };
    server.add_service(task("otlp", telemetry, None, move |shutdown| exporting.run(shutdown)));
}
