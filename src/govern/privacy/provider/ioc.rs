//! Indicators that involve an entity: the recorded events about it, or by it, in which the scanner found something.
//!
//! An event with several findings is one indicator. The findings themselves hold masked values only and stay; whom
//! they involve is forgotten with the entity's key.

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::govern::audit::AuditLog;

const NAME: &str = "ioc";

/// Findings of the audit log as a provider.
pub struct IocProvider(pub AuditLog);

impl IocProvider {
    fn matches(&self, names: &[String]) -> Result<u64, ProviderError> {
        let about = names.iter().filter_map(|name| self.0.about(name).transpose());
        let matches = about.map(|about| about.map(|about| about.with_findings)).sum::<Result<u64, _>>();
        matches.map_err(|_| ProviderError::Unavailable(NAME))
    }
}

impl DataProvider for IocProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let matches = self.matches(names)?;
        Ok((matches > 0).then(|| Facts::from([("matches", Fact::Count(matches))])))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        self.matches(names)
    }
}
