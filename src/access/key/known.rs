//! The keys that are known, and how they are found.

use std::collections::HashMap;

use jiff::Timestamp;

use super::KeyRecord;
use super::KeyText;

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
}
