//! Where state lies: all of it in this node's directory, or most of it in a database that nodes share.

use std::sync::Arc;

use pingora::server::Server;

use super::VERSION;
use super::address::Reserved;
use super::state::State;
use super::state::StateError;
use super::state::secret_at;
use super::task::task;
use crate::clock::Clock;
use crate::cluster::Members;
use crate::cluster::NodeFacts;
use crate::cluster::Sharing;
use crate::config::Config;
use crate::store::PostgresFault;
use crate::store::Store;
use crate::store::open_postgres;
use crate::store::open_sled;
use crate::telemetry::Telemetry;

const FOLDER: &str = "store";

/// The two stores, which are one where nothing is shared.
pub(super) struct Stores {
    /// What every node of the deployment has to see.
    pub(super) shared: Store,
    /// What is this node's own: the index of its journal, the places of its forwarders, what its callers have
    /// left of their quotas, what it thinks of agents.
    pub(super) local: Store,
}

/// Opens both.
///
/// # Errors
/// One of them cannot be used.
pub(super) fn open(config: &Config) -> Result<Stores, StateError> {
    if config.store.in_memory {
        let only = Store::in_memory();
        return Ok(Stores { shared: only.clone(), local: only });
    }
    let local = open_sled(&config.store.path.join(FOLDER))?;
    let shared = match &config.store.postgres {
        Some(postgres) => {
            let url = secret_at(&postgres.url).ok_or(PostgresFault::Url)?;
            open_postgres(&url, postgres)?
        }
        None => local.clone(),
    };
    Ok(Stores { shared, local })
}

/// Takes the place of this node at a database, if there is one. Blocks.
///
/// # Errors
/// Another node has it.
pub(super) fn join(
    config: &Config,
    store: &Store,
    node_id: &str,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<Members>>, StateError> {
    if config.store.postgres.is_none() {
        return Ok(None);
    }
    let members = Members::new(store, node_id.to_owned(), Sharing::Alone, Arc::clone(clock));
    members.claim()?;
    Ok(Some(Arc::new(members)))
}

/// Lets the other nodes know of this one as long as it runs.
pub(super) fn add_tasks(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    state: &State,
    addresses: &Reserved,
) {
    let Some(members) = state.members.clone() else { return };
    let address = addresses.bound().first().map(ToString::to_string);
    let (rules, health) = (state.reloader.handle(), Arc::clone(telemetry));
    let facts = move || NodeFacts {
        address: address.clone(),
        release: VERSION.to_owned(),
        revision: rules.load().revision,
        is_healthy: health.health.is_healthy(),
    };
    server.add_service(task("cluster", telemetry, None, move |shutdown| members.run(facts, shutdown)));
}
