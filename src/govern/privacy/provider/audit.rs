//! What the audit log knows: the entries that are about an entity, or that it made.

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::govern::audit::AuditLog;

const NAME: &str = "audit";

/// The audit log as a provider. Erasing changes no entry: they hold tokens, whose key goes.
pub struct AuditProvider(pub AuditLog);

impl DataProvider for AuditProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, entity: &str) -> Result<Option<Facts>, ProviderError> {
        let about = self.0.about(entity).map_err(|_| ProviderError::Unavailable(NAME))?;
        Ok(about.map(|about| {
            let range = format!("{} to {}", about.first, about.last);
            Facts::from([("events", Fact::Count(about.events)), ("date_range", Fact::Text(range))])
        }))
    }

    fn erase(&self, entity: &str) -> Result<u64, ProviderError> {
        let about = self.0.about(entity).map_err(|_| ProviderError::Unavailable(NAME))?;
        Ok(about.map_or(0, |about| about.events))
    }
}
