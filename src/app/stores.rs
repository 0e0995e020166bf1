//! Where state lies: all of it in this node's directory, or most of it in a database that nodes share.

use super::state::StateError;
use super::state::secret_at;
use crate::config::Config;
use crate::store::PostgresFault;
use crate::store::Store;
use crate::store::open_postgres;
use crate::store::open_sled;

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
