//! Who has taken which place: holds that are in force, erasures under way, and who was erased lately.

use std::collections::HashMap;
use std::collections::HashSet;
use std::time::Duration;

use super::hold::HoldRecord;
use crate::govern::keyring::Keyring;

/// What is known here of the places that all nodes have given away.
#[derive(Default)]
pub(super) struct Places {
    /// The holds in force, by every name of their entities.
    pub(super) held: HashMap<String, HashSet<u64>>,
    /// Those of which a name could not be read, because its key was not known here.
    unread: HashMap<u64, HoldRecord>,
    /// The names of the entities that are being erased, by the tokens of the erasures' notes.
    pub(super) erasing: HashMap<String, Vec<String>>,
    /// When it became known that entities were erased lately, by what their names are found by, on the monotonic
    /// clock.
    pub(super) erased: HashMap<String, Duration>,
    /// The number of the newest hold.
    pub(super) last_hold: u64,
}

impl Places {
    /// Takes a hold over, as it is stored.
    pub(super) fn hold(&mut self, number: u64, record: HoldRecord, keyring: &Keyring) {
        self.last_hold = self.last_hold.max(number);
        self.let_go(number);
        if self.hold_names(number, &record, keyring) < record.count() {
            self.unread.insert(number, record);
        }
    }

    fn hold_names(&mut self, number: u64, record: &HoldRecord, keyring: &Keyring) -> usize {
        let names = record.held(keyring);
        let count = names.len();
        for name in names {
            self.held.entry(name).or_default().insert(number);
        }
        count
    }

    /// Reads the names that could not be read before; all keys there are have to be known now. A name that cannot
    /// be read even so is nobody's. Tells whether there were any.
    pub(super) fn read_again(&mut self, keyring: &Keyring) -> bool {
        let unread = std::mem::take(&mut self.unread);
        for (number, record) in &unread {
            self.hold_names(*number, record, keyring);
        }
        !unread.is_empty()
    }

    /// Lets a hold go that is released.
    pub(super) fn let_go(&mut self, number: u64) {
        self.unread.remove(&number);
        self.held.retain(|_, holds| {
            holds.remove(&number);
            !holds.is_empty()
        });
    }

    /// Lets all holds go.
    pub(super) fn let_all_go(&mut self) {
        self.held.clear();
        self.unread.clear();
    }

    /// Tells whether an entity is being erased under one of these names.
    pub(super) fn is_being_erased(&self, names: &[String]) -> bool {
        self.erasing.values().flatten().any(|name| names.contains(name))
    }
}
