//! Who has taken which place: holds that are in force, erasures under way, and who was erased.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;

use super::hold::HoldRecord;
use super::spelling::folded;
use crate::access::keyring::Keyring;

/// What is known here of the places that all nodes have given away.
#[derive(Default)]
pub(super) struct Places {
    /// The holds in force, by every name of their entities.
    pub(super) held: HashMap<String, HashSet<u64>>,
    /// The same, by what their names are without what tells their spellings apart.
    alike: HashMap<String, HashSet<u64>>,
    /// The same by the names that their entities may share with others.
    shared: HashMap<String, HashSet<u64>>,
    /// The same by who issued them.
    issued: HashMap<String, HashSet<u64>>,
    /// Those of which a name could not be read, because its key was not known here.
    unread: HashMap<u64, HoldRecord>,
    /// The names of the entities that are being erased, by the tokens of the erasures' notes.
    pub(super) erasing: HashMap<String, Vec<String>>,
    /// The entities that were erased, by what their names are found by.
    pub(super) erased: HashMap<String, Gone>,
    /// The number of the newest hold.
    pub(super) last_hold: u64,
}

/// That an entity was erased.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    /// When, by the clock of the node that did it.
    pub(super) erased_at: Timestamp,
    /// When that became known here, on the monotonic clock; while the erasure was under way it counts from its end.
    pub(super) known_at: Duration,
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
        let named = record.named(keyring);
        let count = named.count();
        for name in named.shared {
            self.shared.entry(folded(&name)).or_default().insert(number);
        }
        if let Some(name) = named.issuer {
            self.issued.entry(folded(&name)).or_default().insert(number);
        }
        for name in named.own {
            self.alike.entry(folded(&name)).or_default().insert(number);
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
        for names in [&mut self.held, &mut self.alike, &mut self.shared, &mut self.issued] {
            names.retain(|_, holds| {
                holds.remove(&number);
                !holds.is_empty()
            });
        }
    }

    /// Tells whether a hold on somebody of a name, in whatever spelling, is in force.
    pub(super) fn is_held(&self, name: &str) -> bool {
        self.alike.contains_key(&folded(name))
    }

    /// Tells whether a hold is in force whose entity had a name, in whatever spelling, beside others who may have it, too.
    pub(super) fn is_held_beside(&self, name: &str) -> bool {
        self.shared.contains_key(&folded(name))
    }

    /// Tells whether somebody of a name, in whatever spelling, issued a hold that is in force.
    pub(super) fn has_issued(&self, name: &str) -> bool {
        self.issued.contains_key(&folded(name))
    }

    /// Returns the holds in force on somebody of these names, in whatever spelling.
    pub(super) fn holds_on(&self, names: &[String]) -> BTreeSet<u64> {
        names.iter().filter_map(|name| self.alike.get(&folded(name))).flatten().copied().collect()
    }

    /// Lets all holds go.
    pub(super) fn let_all_go(&mut self) {
        for names in [&mut self.held, &mut self.alike, &mut self.shared, &mut self.issued] {
            names.clear();
        }
        self.unread.clear();
    }

    /// Takes away that an erasure is under way; `index_of` tells what a name is found by. Whoever asked for a hold
    /// before that asked too early, if it was not given up before it left its marks.
    pub(super) fn end(&mut self, note: &str, now: Duration, index_of: impl Fn(&str) -> String) {
        for name in self.erasing.remove(note).unwrap_or_default() {
            if let Some(gone) = self.erased.get_mut(&index_of(&name)) {
                gone.known_at = now;
            }
        }
    }

    /// Tells whether an entity is being erased under one of these names, in whatever spelling.
    pub(super) fn is_being_erased(&self, names: &[String]) -> bool {
        let asked: HashSet<String> = names.iter().map(|name| folded(name)).collect();
        self.erasing.values().flatten().any(|name| asked.contains(&folded(name)))
    }
}
