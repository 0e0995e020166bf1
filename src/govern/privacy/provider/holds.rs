//! Which legal holds name an entity: those about it, and those it issued, released or not.
//!
//! Erasing changes none of them: they hold tokens, whose keys go.

use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::access::keyring::Keyring;
use crate::govern::privacy::desk::HOLDS_MAX;
use crate::govern::privacy::hold::HOLDS;
use crate::govern::privacy::hold::HoldRecord;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Store;
use crate::store::Table;

const NAME: &str = "legal_holds";

/// The legal holds as a provider.
pub struct HoldsProvider {
    holds: Table<u64, HoldRecord>,
    keyring: Arc<Keyring>,
}

/// How many holds name somebody.
#[derive(Default)]
struct Naming {
    about: u64,
    issued: u64,
    /// Each once.
    all: u64,
}

impl HoldsProvider {
    /// Returns the holds of a store as a provider.
    pub fn new(store: &Store, keyring: Arc<Keyring>) -> Self {
        Self { holds: store.table(HOLDS), keyring }
    }

    fn naming(&self, names: &[String]) -> Result<Naming, ProviderError> {
        let records = self.holds.list(&KeyRange::all(), Order::Ascending, HOLDS_MAX);
        let mut naming = Naming::default();
        for (_, record) in records.map_err(|_| ProviderError::Unavailable(NAME))? {
            let about = record.is_about(names, &self.keyring);
            let issued = record.is_issued_by(names, &self.keyring);
            naming.about += u64::from(about);
            naming.issued += u64::from(issued);
            naming.all += u64::from(about || issued);
        }
        Ok(naming)
    }
}

impl DataProvider for HoldsProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let Naming { about, issued, all } = self.naming(names)?;
        let facts = || Facts::from([("about", Fact::Count(about)), ("issued", Fact::Count(issued))]);
        Ok((all > 0).then(facts))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        Ok(self.naming(names)?.all)
    }
}
