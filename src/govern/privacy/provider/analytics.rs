//! What an entity used: its figures in the analytics, by day, as far as it is named there.

use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::govern::analytics::Meter;
use crate::govern::analytics::figures::Count;

const NAME: &str = "analytics";

/// The usage figures as a provider.
pub struct AnalyticsProvider(pub Arc<Meter>);

impl DataProvider for AnalyticsProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, entity: &str) -> Result<Option<Facts>, ProviderError> {
        let days = self.0.of_caller(entity).map_err(|_| ProviderError::Unavailable(NAME))?;
        if days.is_empty() {
            return Ok(None);
        }
        let sum = |count: Count| Fact::Count(days.values().map(|figures| figures[count]).sum());
        let facts = [
            ("days", Fact::Count(days.len() as u64)),
            ("requests", sum(Count::Requests)),
            ("tokens", sum(Count::Total)),
        ];
        Ok(Some(Facts::from(facts)))
    }

    fn erase(&self, entity: &str) -> Result<u64, ProviderError> {
        self.0.forget_caller(entity).map_err(|_| ProviderError::Unavailable(NAME))
    }
}
