//! Which changes of the rules an entity brought.
//!
//! Erasing changes no revision: its author is a token, whose key goes.

use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::policy::reload::Reloader;

const NAME: &str = "revisions";

/// The history of the rules as a provider.
pub struct RevisionsProvider(pub Arc<Reloader>);

impl RevisionsProvider {
    fn count(&self, names: &[String]) -> Result<u64, ProviderError> {
        self.0.revisions().count_by(names).map_err(|_| ProviderError::Unavailable(NAME))
    }
}

impl DataProvider for RevisionsProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let authored = self.count(names)?;
        Ok((authored > 0).then(|| Facts::from([("authored", Fact::Count(authored))])))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        self.count(names)
    }
}
