//! The keys that are known, and how they are found.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::KeyRecord;
use super::KeyText;

/// An admin key that ends sooner leaves nobody to manage keys before long.
const LASTING: Duration = Duration::from_secs(7 * 86_400);

/// The keys by id, and their ids by the hashes of their texts.
#[derive(Default)]
pub(super) struct Known {
    pub(super) by_id: HashMap<String, KeyRecord>,
    pub(super) by_hash: HashMap<KeyText, String>,
}

impl Known {
    /// Takes a key over, in the place of what it was.
    pub(super) fn put(&mut self, record: KeyRecord) {
        self.remove(&record.id);
        self.by_hash.insert(record.hash, record.id.clone());
        if let Some(previous) = record.previous {
            self.by_hash.insert(previous.hash, record.id.clone());
        }
        self.by_id.insert(record.id.clone(), record);
    }

    /// Forgets a key.
    pub(super) fn remove(&mut self, id: &str) {
        let Some(record) = self.by_id.remove(id) else { return };
        self.by_hash.remove(&record.hash);
        if let Some(previous) = record.previous {
            self.by_hash.remove(&previous.hash);
        }
    }

    /// Returns how many admin keys count.
    pub(super) fn admins(&self, now: Timestamp) -> usize {
        self.by_id.values().filter(|record| record.is_admin(now)).count()
    }

    /// Tells whether somebody could manage keys without those of some ids; where they can for longer than [`LASTING`] with
    /// them, also for so long.
    pub(super) fn can_do_without(&self, ids: &BTreeSet<&String>, now: Timestamp) -> bool {
        let later = now.checked_add(LASTING).unwrap_or(Timestamp::MAX);
        [now, later].into_iter().all(|at| {
            let admins = self.by_id.values().filter(|record| record.is_admin(at));
            let (lost, left): (Vec<_>, Vec<_>) = admins.partition(|record| ids.contains(&record.id));
            lost.is_empty() || !left.is_empty()
        })
    }
}
