//! Which tools an entity uses: how many definitions are pinned of it, whatever the route.

use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::access::keyring::Keyring;
use crate::access::keyring::Standing;
use crate::policy::pin::PinKey;
use crate::policy::pin::PinKeys;
use crate::policy::pin::Pins;

const NAME: &str = "tools";
/// What the secrets are for under which pins are hashed.
const PURPOSE: &str = "tool-pins";

/// The pins of tools as a provider. Erasing forgets them on this node; elsewhere nothing reads them any more.
pub struct ToolsProvider(pub Arc<Pins>);

impl DataProvider for ToolsProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let pinned = names.iter().map(|name| self.0.count(name)).sum();
        Ok((pinned > 0).then(|| Facts::from([("pinned", Fact::Count(pinned))])))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        let forgotten = names.iter().map(|name| self.0.forget(name)).sum::<Result<u64, _>>();
        forgotten.map_err(|_| ProviderError::Unavailable(NAME))
    }
}

/// Returns the keys under which pins are hashed: each goes with the key of its caller's name. Nobody waits for a database
/// here: the pins of a name whose key is being made there are forgotten once it has one.
pub fn pin_keys(keyring: &Arc<Keyring>) -> PinKeys {
    fn found(keyring: &Keyring, name: &str) -> Option<PinKey> {
        let (secret, standing) = keyring.secret_of(name, PURPOSE)?;
        Some(PinKey { secret, is_stranger: standing == Standing::Stranger })
    }
    let (making, finding) = (Arc::clone(keyring), Arc::clone(keyring));
    PinKeys {
        make: Box::new(move |name| {
            making.at_hand(name, Standing::of(name));
            found(&making, name)
        }),
        find: Box::new(move |name| found(&finding, name)),
    }
}
