//! What is thought of an entity that is an agent, and was attested of it.

use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::clock::Clock;
use crate::govern::trust::Trust;
use crate::govern::trust::TrustError;

const NAME: &str = "trust";

/// The trust framework as a provider. Erasing forgets the agent, its sessions and its attestations.
pub struct TrustProvider {
    /// What is thought of agents.
    pub trust: Arc<Trust>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl DataProvider for TrustProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, entity: &str) -> Result<Option<Facts>, ProviderError> {
        let now = self.clock.now();
        let score = match self.trust.score(entity, now) {
            Ok(score) => score,
            Err(TrustError::Store(_)) => return Err(ProviderError::Unavailable(NAME)),
            Err(_) => return Ok(None),
        };
        let unavailable = |_| ProviderError::Unavailable(NAME);
        let sessions = self.trust.sessions(Some(entity), now).map_err(unavailable)?;
        let attestations = self.trust.attestations(entity, None, usize::MAX).map_err(unavailable)?;
        Ok(Some(Facts::from([
            ("score", Fact::Text(format!("{:.1}", score.score))),
            ("verdict", Fact::Text(score.verdict.as_str().to_owned())),
            ("sessions", Fact::Count(sessions.len() as u64)),
            ("attestations", Fact::Count(attestations.len() as u64)),
        ])))
    }

    fn erase(&self, entity: &str) -> Result<u64, ProviderError> {
        self.trust.forget(entity).map_err(|_| ProviderError::Unavailable(NAME))
    }
}
