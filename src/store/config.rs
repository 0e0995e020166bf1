//! Where state is kept.

use std::path::PathBuf;
use std::time::Duration;

use crate::document::secret::SecretPlace;

/// The store's configuration; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The directory of everything of this node that outlives the process.
    pub path: PathBuf,
    /// Whether nothing outlives the process but the audit log, its keys and legal holds.
    pub in_memory: bool,
    /// How much of the store in the directory is kept in memory, in bytes.
    pub cache_bytes: u64,
    /// The database that state is shared in; `None`: it lies in the directory.
    pub postgres: Option<PostgresConfig>,
}

/// How a database is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresConfig {
    /// Where its URL lies, which holds the credentials.
    pub url: SecretPlace,
    /// Where the secret lies that the nodes of the deployment share: what they store is sealed with it.
    pub secret: SecretPlace,
    /// Whether several nodes use the database at once.
    pub together: bool,
    /// Whether connections over TCP are secured, and the server's certificate checked.
    pub tls: bool,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// The most connections of this process, beside the one that listens.
    pub connections: usize,
    /// The most calls that may wait for a connection; past it they fail.
    pub waiting_max: usize,
    /// How long a call may take, the wait included.
    pub timeout: Duration,
}
