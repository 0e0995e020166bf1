//! What an entity may do: the API keys and local users that have its name, or whose id it is.
//!
//! A user's name is its own, in whatever spelling; the name of a key is a label that several may have.

use std::sync::Arc;

use super::Aliases;
use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::access::authenticator::Authenticator;
use crate::access::budget::Budgets;
use crate::access::key::KeyError;
use crate::access::key::KeyRecord;
use crate::access::name::UserName;
use crate::access::role::Role;
use crate::access::user::UserRecord;
use crate::clock::Clock;

const NAME: &str = "rbac";

/// The API keys and local users as a provider. Erasing revokes the keys, forgets their budgets and deletes the
/// user.
pub struct RbacProvider {
    /// Keys and users.
    pub authenticator: Authenticator,
    /// What keys may spend, and have spent.
    pub budgets: Arc<Budgets>,
    /// The time, for which admin keys count.
    pub clock: Arc<dyn Clock>,
}

impl RbacProvider {
    fn keys_of(&self, names: &[String]) -> Vec<KeyRecord> {
        let is_its = |key: &KeyRecord| names.iter().any(|name| key.id == *name || key.name == *name);
        self.authenticator.keys.list().into_iter().filter(is_its).collect()
    }

    fn users_of(&self, names: &[String]) -> Vec<UserRecord> {
        let spelled: Vec<UserName> = names.iter().filter_map(|name| UserName::parse(name).ok()).collect();
        let is_its = |user: &UserRecord| {
            names.contains(&user.id) || spelled.iter().any(|name| name.as_str() == user.name)
        };
        self.authenticator.users.list().into_iter().filter(is_its).collect()
    }
}

impl DataProvider for RbacProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self, entity: &str) -> Aliases {
        let names = [entity.to_owned()];
        let mut aliases = Aliases::default();
        for key in self.keys_of(&names) {
            match key.id == entity {
                true => aliases.shared.push(key.name),
                false => aliases.own.push(key.id),
            }
        }
        aliases.own.extend(self.users_of(&names).into_iter().flat_map(|user| [user.id, user.name]));
        aliases
    }

    fn spelling(&self, entity: &str) -> Option<String> {
        let names = [entity.to_owned()];
        // A key that is called so is meant by just these letters.
        if !self.keys_of(&names).is_empty() {
            return None;
        }
        let user = self.users_of(&names).into_iter().next()?;
        (user.id != entity && user.name != entity).then_some(user.name)
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let held: Vec<Role> = self.keys_of(names).iter().map(|key| key.role).collect();
        let held = [held, self.users_of(names).iter().map(|user| user.role).collect()].concat();
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

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        let ids: Vec<String> = self.keys_of(names).into_iter().map(|key| key.id).collect();
        let revoked = match self.authenticator.keys.revoke_all(&ids, self.clock.now()) {
            Ok(revoked) => revoked as u64,
            Err(error @ KeyError::LastAdmin) => return Err(ProviderError::Refused(error.to_string())),
            Err(_) => return Err(ProviderError::Unavailable(NAME)),
        };
        let unavailable = || ProviderError::Unavailable(NAME);
        // Those of keys that were revoked before, too.
        for name in names.iter().chain(&ids) {
            self.budgets.remove(name).map_err(|_| unavailable())?;
        }
        let users = self.users_of(names).into_iter().map(|user| self.authenticator.users.delete(&user.id));
        let deleted = users.map(|gone| gone.map(u64::from)).sum::<Result<u64, _>>();
        Ok(revoked + deleted.map_err(|_| unavailable())?)
    }
}
