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

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let now = self.clock.now();
        let unavailable = |_| ProviderError::Unavailable(NAME);
        let (mut scores, mut verdicts) = (Vec::new(), Vec::new());
        let (mut sessions, mut attestations) = (0, 0);
        for name in names {
            let score = match self.trust.score(name, now) {
                Ok(score) => score,
                Err(TrustError::Store(_)) => return Err(ProviderError::Unavailable(NAME)),
                Err(_) => continue,
            };
            scores.push(format!("{:.1}", score.score));
            verdicts.push(score.verdict.as_str());
            sessions += self.trust.sessions(Some(name), None, now).map_err(unavailable)?.len() as u64;
            attestations +=
                self.trust.attestations(name, None, usize::MAX).map_err(unavailable)?.len() as u64;
        }
        Ok((!scores.is_empty()).then(|| {
            Facts::from([
                ("score", Fact::Text(scores.join(", "))),
                ("verdict", Fact::Text(verdicts.join(", "))),
                ("sessions", Fact::Count(sessions)),
                ("attestations", Fact::Count(attestations)),
            ])
        }))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        let forgotten = names.iter().map(|name| self.trust.forget(name)).sum::<Result<u64, _>>();
        forgotten.map_err(|_| ProviderError::Unavailable(NAME))
    }
}
