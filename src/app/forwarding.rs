//! The sinks of the configuration, opened and run; they follow it.

use std::sync::Arc;

use pingora::server::Server;
use tokio::sync::watch;

use super::VERSION;
use super::state::State;
use super::state::secret_at;
use super::task::task;
use crate::config::Config;
use crate::config::siem;
use crate::document::Document;
use crate::document::Fault;
use crate::document::Problem;
use crate::govern::siem::SinkError;
use crate::govern::siem::Sinks;
use crate::govern::siem::Surroundings;
use crate::govern::siem::check;
use crate::govern::siem::config::SiemConfig;
use crate::policy::reload::Announcement;
use crate::policy::ruleset::SINKS_KEY;
use crate::telemetry::Telemetry;

/// Where dead letters lie, below the state directory.
const SIEM_FOLDER: &str = "siem";

/// Returns everything that is wrong with the sinks of a document.
pub(super) fn faults(document: &Document) -> Vec<Fault> {
    let sinks = match siem::of(document) {
        Ok(config) => config.sinks,
        Err(faults) => return faults,
    };
    let fault = |(at, reason): (usize, String)| {
        let key = format!("{SINKS_KEY}.sinks[{at}].ca_file");
        let problem = Problem::Invalid { reason, suggestion: None };
        Fault { place: document.places().of(&key).cloned(), key, problem }
    };
    let refused =
        sinks.iter().enumerate().filter_map(|(at, sink)| Some((at, check(sink).err()?.to_string())));
    refused.map(fault).collect()
}

/// Opens every sink that is in force, and lets them follow what will be.
///
/// # Errors
/// See [`SinkError`].
pub(super) fn open(config: &Config, state: &State, telemetry: &Arc<Telemetry>) -> Result<Sinks, SinkError> {
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
    Sinks::open(wanted(state), around)
}

/// Returns the sinks that are in force at each moment.
fn wanted(state: &State) -> watch::Receiver<SiemConfig> {
    // What is in force was judged before.
    let read = |document: &Document| siem::of(document).unwrap_or_default();
    let (tell, told) = watch::channel(read(&state.reloader.current().document));
    state.reloader.subscribe(move |announcement| {
        if let Announcement::Published(change) = announcement {
            let sinks = read(&change.document);
            tell.send_if_modified(|known| {
                let is_new = *known != sinks;
                *known = sinks;
                is_new
            });
        }
    });
    told
}

/// Adds the sinks to what the server runs.
pub(super) fn add(server: &mut Server, sinks: Sinks, telemetry: &Arc<Telemetry>) {
    server.add_service(task("siem", telemetry, None, move |shutdown| sinks.run(shutdown)));
}
