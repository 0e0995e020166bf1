//! One spelling for whoever may be called in several.

use std::collections::BTreeSet;

use super::desk::HOLDS_MAX;
use super::desk::Privacy;
use super::hold::HoldId;
use super::hold::HoldRecord;
use crate::access::name::UserName;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::StoreError;

impl Privacy {
    /// Returns an entity's name as it is to stand in records: in its one spelling, where there is one, so that none is left
    /// behind in another when it is erased.
    pub fn spelling(&self, entity: &str) -> String {
        let spelt = self.providers.iter().find_map(|provider| provider.spelling(entity));
        spelt.unwrap_or_else(|| entity.to_owned())
    }

    /// Returns what holds call somebody of these names in other spellings: an earlier release kept them as they were typed.
    pub(super) fn spellings(&self, names: &[String]) -> Result<BTreeSet<String>, StoreError> {
        let mut found = BTreeSet::new();
        let records = self.holds.table().list(&KeyRange::all(), Order::Ascending, HOLDS_MAX)?;
        let named =
            |(number, record): (u64, HoldRecord)| record.open(HoldId(number), &self.keyring).told.entity_id;
        for name in records.into_iter().map(named) {
            let folded = || UserName::parse(&name).is_ok_and(|it| names.iter().any(|own| own == it.as_str()));
            if !names.contains(&name) && folded() && names.contains(&self.spelling(&name)) {
                found.insert(name);
            }
        }
        Ok(found)
    }
}
