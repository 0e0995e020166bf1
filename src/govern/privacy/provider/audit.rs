//! What the audit log knows: the entries that are about an entity, or that it made.

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::govern::audit::About;
use crate::govern::audit::AuditLog;

const NAME: &str = "audit";

/// The audit log as a provider. Erasing changes no entry: they hold tokens, whose keys go. An entry under two
/// names of an entity counts twice.
pub struct AuditProvider(pub AuditLog);

impl AuditProvider {
    /// Returns what is known under each name of which something is.
    fn about(&self, names: &[String]) -> Result<Vec<About>, ProviderError> {
        let about = names.iter().filter_map(|name| self.0.about(name).transpose());
        about.collect::<Result<_, _>>().map_err(|_| ProviderError::Unavailable(NAME))
    }
}

impl DataProvider for AuditProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let about = self.about(names)?;
        let first = about.iter().map(|about| about.first).min();
        let last = about.iter().map(|about| about.last).max();
        Ok(first.zip(last).map(|(first, last)| {
            let events = about.iter().map(|about| about.events).sum();
            let range = Fact::Text(format!("{first} to {last}"));
            Facts::from([("events", Fact::Count(events)), ("date_range", range)])
        }))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        Ok(self.about(names)?.iter().map(|about| about.events).sum())
    }
}
