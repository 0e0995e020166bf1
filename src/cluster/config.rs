//! What nodes share beside a database.

use std::path::PathBuf;
use std::time::Duration;

use super::WhenAway;
use crate::document::secret::SecretPlace;

/// How quotas are shared; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// Where the URL of Redis lies, which holds the credentials.
    pub url: SecretPlace,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// How long a request waits for a round.
    pub timeout: Duration,
    /// What happens while Redis is away.
    pub when_away: WhenAway,
}
