//! Where the prices come from.

use std::path::PathBuf;

/// The analytics' configuration; a change needs a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnalyticsConfig {
    /// A file of prices that lies over the built-in ones; read again when it changes.
    pub prices: Option<PathBuf>,
}
