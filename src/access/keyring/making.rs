//! Tokens of names, and the keys of those that are new.
//!
//! Where keys lie in a file a new one is made at once. Where nodes share them it takes a transaction, which many names
//! go into together; whoever must not wait for a database takes what is at hand, and leaves the rest to a task.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::CACHED_MAX;
use super::Cached;
use super::Home;
use super::Keyring;
use super::SLOT_BYTES;
use super::Standing;
use super::UNLISTED_TOKEN;
use super::cipher::Key;
use super::cipher::TAG_BYTES;
use super::cipher::seal_name;
use super::file::Index;
use super::file::Slot;
use crate::store::StoreError;

/// How many names get their keys by one transaction.
const AT_ONCE: usize = 1000;

impl Keyring {
    /// Returns the token of a name as [`Keyring::seal`] does, of which more may be known than it tells.
    pub fn seal_as(&self, name: &str, standing: Standing) -> Arc<str> {
        if let Some(token) = self.at_hand(name, standing) {
            return token;
        }
        match self.make_keys([(name, standing)]) {
            Ok(()) => self.found(name, self.index_of(name), standing),
            // It was told when the first one failed.
            Err(_) => self.unlisted(standing),
        }
    }

    /// Returns the token of a name as [`Keyring::seal_as`] does, without a word to the store; `None` where its key has to be
    /// [made](Keyring::make_keys) there.
    pub fn at_hand(&self, name: &str, standing: Standing) -> Option<Arc<str>> {
        let today = self.today();
        let is_noted = |cached: &&Cached| cached.standing >= standing && cached.day == today;
        if let Some(cached) = self.cache.read().get(name).filter(is_noted) {
            return Some(Arc::clone(&cached.token));
        }
        let index = self.index_of(name);
        if matches!(self.home, Home::Shared(_)) && self.known.write().wants(&index, standing, today) {
            return None;
        }
        Some(self.found(name, index, standing))
    }

    /// Makes the keys of those names that have none and get a place, all of them together. Blocks, where the store is
    /// asked.
    ///
    /// # Errors
    /// The store failed, which is told once: some names have no key.
    pub fn make_keys<'n>(
        &self,
        names: impl IntoIterator<Item = (&'n str, Standing)>,
    ) -> Result<(), StoreError> {
        let Home::Shared(keys) = &self.home else { return Ok(()) };
        let today = self.today();
        let names: Vec<_> =
            names.into_iter().map(|(name, standing)| (self.index_of(name), standing)).collect();
        for some in names.chunks(AT_ONCE) {
            let wanted = || -> Vec<Slot> {
                let newcomers = self.known.write().newcomers(some, today);
                let slot = |(index, standing)| Slot { index, key: Key::random(), standing, seen_day: today };
                newcomers.into_iter().map(slot).collect()
            };
            if wanted().is_empty() {
                continue;
            }
            let made = keys.make(|fresh| self.take_over(fresh), wanted).inspect_err(|error| {
                if !self.was_away.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "no new name gets a key: new names are unlisted");
                }
            })?;
            if self.was_away.swap(false, Ordering::Relaxed) {
                tracing::info!("new names get keys again");
            }
            let mut known = self.known.write();
            made.into_iter().for_each(|standing| known.note_newcomer(standing));
        }
        Ok(())
    }

    /// Returns what stands for a name that gets no key, and counts it.
    pub fn unlisted(&self, standing: Standing) -> Arc<str> {
        self.counts.unlisted[standing.place()].fetch_add(1, Ordering::Relaxed);
        UNLISTED_TOKEN.into()
    }

    /// Returns the token of a name that has a key or gets one at once, and notes that it was used.
    fn found(&self, name: &str, index: Index, standing: Standing) -> Arc<str> {
        let today = self.today();
        let mut known = self.known.write();
        let made = match &self.home {
            Home::File(_) => known.find_or_make(index, standing, today),
            Home::Shared(_) => known.find(&index),
        };
        let Some((slot, key)) = made else {
            if !self.counts.was_full[standing.place()].swap(true, Ordering::Relaxed) {
                let (standing, names) = (standing.as_str(), known.names(standing));
                tracing::error!(standing, names, "no further name gets a key for now: new ones are unlisted");
            }
            return self.unlisted(standing);
        };
        known.note_use(slot, standing, today);
        if known.is_dirty() {
            self.is_dirty.store(true, Ordering::Release);
        }
        let token: Arc<str> = token(slot, &key, name).into();
        // Under the lock of the keys, so that a name which is being erased does not come back.
        let mut cache = self.cache.write();
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        cache.insert(name.into(), Cached { token: Arc::clone(&token), standing, day: today });
        token
    }
}

/// Returns the token of a name under its key.
pub(super) fn token(slot: u32, key: &Key, name: &str) -> String {
    let mut bytes = slot.to_le_bytes().to_vec();
    bytes.extend_from_slice(&seal_name(key, name));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns a text that is as long as the token of a name will be.
pub fn stand_in(name: &str) -> Arc<str> {
    let bytes = SLOT_BYTES + name.len() + TAG_BYTES;
    UNLISTED_TOKEN.repeat((bytes * 4).div_ceil(3)).into()
}
