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
    fn matches(&self, entity: &str) -> Result<u64, ProviderError> {
        let about = self.0.about(entity).map_err(|_| ProviderError::Unavailable(NAME))?;
        Ok(about.map_or(0, |about| about.with_findings))
    }
}

impl DataProvider for IocProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, entity: &str) -> Result<Option<Facts>, ProviderError> {
        let matches = self.matches(entity)?;
        Ok((matches > 0).then(|| Facts::from([("matches", Fact::Count(matches))])))
    }

    fn erase(&self, entity: &str) -> Result<u64, ProviderError> {
        self.matches(entity)
    }
}
