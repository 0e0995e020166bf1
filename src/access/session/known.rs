//! The sessions that are known, and how they are found.

use std::collections::HashMap;
use std::collections::HashSet;

use jiff::Timestamp;

use super::SESSIONS_PER_HOLDER_MAX;
use super::SessionConfig;
use super::SessionRecord;

/// A session, and what is known of it in memory alone.
pub(super) struct Live {
    pub(super) record: SessionRecord,
    /// The moment of last use that the store has.
    pub(super) stored_seen_at: Timestamp,
    pub(super) logout_hint: Option<String>,
}

/// The sessions by the hashes of what browsers hold, and those hashes by the sessions' ids.
#[derive(Default)]
pub(super) struct Known {
    pub(super) by_hash: HashMap<[u8; 32], Live>,
    by_id: HashMap<String, [u8; 32]>,
}

impl Known {
    /// Takes a session over. `before` is what was known of all of them where they are read anew: uses and hints are
    /// kept in memory alone.
    pub(super) fn put(&mut self, mut record: SessionRecord, before: &mut Self) {
        let known = self.remove(&record.id).or_else(|| before.remove(&record.id));
        let stored_seen_at = record.seen_at;
        let logout_hint = known.and_then(|known| {
            record.seen_at = record.seen_at.max(known.record.seen_at);
            known.logout_hint
        });
        self.by_id.insert(record.id.clone(), record.hash);
        self.by_hash.insert(record.hash, Live { record, stored_seen_at, logout_hint });
    }

    /// Forgets a session.
    pub(super) fn remove(&mut self, id: &str) -> Option<Live> {
        self.by_hash.remove(&self.by_id.remove(id)?)
    }

    /// Returns the session of an id.
    pub(super) fn of_id(&self, id: &str) -> Option<&Live> {
        self.by_hash.get(self.by_id.get(id)?)
    }

    /// Notes that a session was used at another node.
    pub(super) fn note_use(&mut self, id: &str, at: Timestamp) {
        if let Some(live) = self.by_id.get(id).and_then(|hash| self.by_hash.get_mut(hash)) {
            live.record.seen_at = live.record.seen_at.max(at);
        }
    }

    /// Returns the ids of the sessions that have ended.
    pub(super) fn ended(&self, config: &SessionConfig, now: Timestamp) -> HashSet<String> {
        let ended = self.by_hash.values().filter(|live| live.record.has_ended(config, now));
        ended.map(|live| live.record.id.clone()).collect()
    }

    /// Returns the session of a holder who has as many as may be, the one that was idle longest.
    pub(super) fn oldest_past_limit(&self, holder: &str) -> Option<String> {
        let own = |live: &&Live| live.record.holder.id() == holder;
        if self.by_hash.values().filter(own).count() < SESSIONS_PER_HOLDER_MAX {
            return None;
        }
        let idlest = self.by_hash.values().filter(own).min_by_key(|live| live.record.seen_at);
        idlest.map(|live| live.record.id.clone())
    }
}
