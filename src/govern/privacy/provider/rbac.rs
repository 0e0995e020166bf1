//! What an entity may do: the API keys and local users that have its name, or whose id it is.

use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::access::authenticator::Authenticator;
use crate::access::key::KeyError;
use crate::access::key::KeyRecord;
use crate::access::name::UserName;
use crate::access::role::Role;
use crate::access::user::UserRecord;
use crate::clock::Clock;

const NAME: &str = "rbac";

/// The API keys and local users as a provider. Erasing revokes the keys and deletes the user.
pub struct RbacProvider {
    /// Keys and users.
    pub authenticator: Authenticator,
    /// The time, for which admin keys count.
    pub clock: Arc<dyn Clock>,
}

impl RbacProvider {
    fn keys_of(&self, entity: &str) -> Vec<KeyRecord> {
        let is_its = |key: &KeyRecord| key.id == entity || key.name == entity;
        self.authenticator.keys.list().into_iter().filter(is_its).collect()
    }

    fn users_of(&self, entity: &str) -> Vec<UserRecord> {
        let name = UserName::parse(entity).ok();
        let is_its = |user: &UserRecord| {
            user.id == entity || name.as_ref().is_some_and(|name| name.as_str() == user.name)
        };
        self.authenticator.users.list().into_iter().filter(is_its).collect()
    }
}

impl DataProvider for RbacProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, entity: &str) -> Result<Option<Facts>, ProviderError> {
        let held: Vec<Role> = self.keys_of(entity).iter().map(|key| key.role).collect();
        let held = [held, self.users_of(entity).iter().map(|user| user.role).collect()].concat();
        if held.is_empty() {
            return Ok(None);
        }
        let mut roles: Vec<String> = held.iter().map(|role| role.as_str().to_owned()).collect();
        let mut permissions: Vec<String> =
            held.iter().flat_map(|role| role.granted()).map(|permission| (*permission).to_owned()).collect();
        for list in [&mut roles, &mut permissions] {
            list.sort();
            list.dedup();
        }
        Ok(Some(Facts::from([("roles", Fact::List(roles)), ("permissions", Fact::List(permissions))])))
    }

    fn erase(&self, entity: &str) -> Result<u64, ProviderError> {
        let mut revoked = 0;
        for key in self.keys_of(entity) {
            match self.authenticator.keys.revoke(&key.id, self.clock.now()) {
                Ok(true) => revoked += 1,
                Ok(false) => {}
                Err(error @ KeyError::LastAdmin) => return Err(ProviderError::Refused(error.to_string())),
                Err(_) => return Err(ProviderError::Unavailable(NAME)),
            }
        }
        for user in self.users_of(entity) {
            let deleted = self.authenticator.users.delete(&user.id);
            revoked += u64::from(deleted.map_err(|_| ProviderError::Unavailable(NAME))?);
        }
        Ok(revoked)
    }
}
