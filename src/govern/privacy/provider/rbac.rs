//! What an entity may do: the API keys that have its name, or whose id it is.

use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::access::key::KeyError;
use crate::access::key::KeyRecord;
use crate::access::key::KeyStore;
use crate::clock::Clock;

const NAME: &str = "rbac";

/// The API keys as a provider. Erasing revokes them.
pub struct RbacProvider(pub Arc<KeyStore>, pub Arc<dyn Clock>);

impl RbacProvider {
    fn keys_of(&self, entity: &str) -> Vec<KeyRecord> {
        let is_its = |key: &KeyRecord| key.id == entity || key.name == entity;
        self.0.list().into_iter().filter(is_its).collect()
    }
}

impl DataProvider for RbacProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, entity: &str) -> Result<Option<Facts>, ProviderError> {
        let keys = self.keys_of(entity);
        if keys.is_empty() {
            return Ok(None);
        }
        let mut roles: Vec<String> = keys.iter().map(|key| key.role.as_str().to_owned()).collect();
        let mut permissions: Vec<String> = keys
            .iter()
            .flat_map(|key| key.role.granted())
            .map(|permission| (*permission).to_owned())
            .collect();
        for list in [&mut roles, &mut permissions] {
            list.sort();
            list.dedup();
        }
        Ok(Some(Facts::from([("roles", Fact::List(roles)), ("permissions", Fact::List(permissions))])))
    }

    fn erase(&self, entity: &str) -> Result<u64, ProviderError> {
        let mut revoked = 0;
        for key in self.keys_of(entity) {
            match self.0.revoke(&key.id, self.1.now()) {
                Ok(true) => revoked += 1,
                Ok(false) => {}
                Err(error @ KeyError::LastAdmin) => return Err(ProviderError::Refused(error.to_string())),
                Err(_) => return Err(ProviderError::Unavailable(NAME)),
            }
        }
        Ok(revoked)
    }
}
