//! The sinks of the configuration, opened and run.

use std::sync::Arc;

use pingora::server::Server;

use super::VERSION;
use super::state::State;
use super::state::secret_at;
use super::task::task;
use crate::config::Config;
use crate::govern::siem::Forwarder;
use crate::govern::siem::SinkError;
use crate::govern::siem::Surroundings;
use crate::telemetry::Telemetry;

/// Where dead letters lie, below the state directory.
const SIEM_FOLDER: &str = "siem";

/// Opens every sink.
///
/// # Errors
/// See [`SinkError`].
pub(super) fn open(
    config: &Config,
    state: &State,
    telemetry: &Arc<Telemetry>,
) -> Result<Vec<Forwarder>, SinkError> {
    let around = Surroundings {
        log: state.log.clone(),
        store: state.local.clone(),
        folder: config.store.path.join(SIEM_FOLDER),
        read_secret: Arc::new(secret_at),
        clock: Arc::clone(&state.clock),
        metrics: Arc::clone(&telemetry.metrics),
        version: VERSION.to_owned(),
        node: state.node_id.clone(),
    };
    config.siem.sinks.iter().map(|sink| Forwarder::open(sink.clone(), around.clone())).collect()
}

/// Adds every sink to what the server runs.
pub(super) fn add(server: &mut Server, forwarders: Vec<Forwarder>, telemetry: &Arc<Telemetry>) {
    for forwarder in forwarders {
        server.add_service(task("siem", telemetry, None, move |shutdown| forwarder.run(shutdown)));
    }
}
