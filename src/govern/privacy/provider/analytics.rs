//! What an entity used: its figures in the analytics, by day, as far as it is named there.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::NamedCallers;
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

    fn callers(&self) -> Result<NamedCallers, ProviderError> {
        let also = self.0.named_callers().map_err(|_| ProviderError::Unavailable(NAME))?;
        Ok(NamedCallers { also, ..NamedCallers::default() })
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let days = names.iter().map(|name| self.0.of_caller(name)).collect::<Result<Vec<_>, _>>();
        let days: Vec<_> =
            days.map_err(|_| ProviderError::Unavailable(NAME))?.into_iter().flatten().collect();
        if days.is_empty() {
            return Ok(None);
        }
        let sum = |count: Count| Fact::Count(days.iter().map(|(_, figures)| figures[count]).sum());
        let distinct: BTreeSet<_> = days.iter().map(|(day, _)| *day).collect();
        let facts = [
            ("days", Fact::Count(distinct.len() as u64)),
            ("requests", sum(Count::Requests)),
            ("tokens", sum(Count::Total)),
        ];
        Ok(Some(Facts::from(facts)))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        let forgotten = names.iter().map(|name| self.0.forget_caller(name)).sum::<Result<u64, _>>();
        forgotten.map_err(|_| ProviderError::Unavailable(NAME))
    }
}
