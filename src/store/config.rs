//! Where state is kept.

use std::path::PathBuf;

/// The store's configuration; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The directory of everything that outlives the process.
    pub path: PathBuf,
    /// Whether nothing outlives the process.
    pub in_memory: bool,
    /// The most bytes the store keeps in memory.
    pub cache_bytes: u64,
}
