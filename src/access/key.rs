//! API keys. Only a keyed hash of each is kept.
//!
//! The hash is what a key is looked up by, so a lookup compares nothing byte by byte with what the caller sent; the
//! checksum lets a mistyped key fail before anything is asked. A key can be rotated: its text is replaced, and the text
//! before goes on counting for an overlap, so that who uses it has time to change. When a key was last used is written
//! down every minute, and when the process ends.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::Serialize;
use subtle::ConstantTimeEq;

use super::credential::Principal;
use super::credential::Proof;
use super::keyring::Keyring;
use super::keyring::sealed::Opener;
use super::keyring::sealed::Sealed;
use super::keyring::sealed::seal_old;
use super::name::is_label;
use super::role::Role;
use super::scope::Scope;
use super::scope::ScopeFault;
use super::secret::NodeSecret;
use super::tier::Tier;
use crate::store::Batch;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

mod first;
mod known;
mod stored;
mod text;

use self::known::Known;
pub use self::text::KeyText;

/// The most keys of a deployment.
pub const KEYS_MAX: usize = 10_000;
/// The longest name of a key, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// The longest overlap of a rotation.
pub const OVERLAP_MAX: Duration = Duration::from_secs(30 * 86_400);

const PURPOSE: &str = "api-key";
/// How often last uses are written down.
const NOTE_EVERY: Duration = Duration::from_secs(60);

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The key's id, which may be shown.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to, as far as the deployment is; see [`Tier::OF_THE_DEPLOYMENT`].
    pub tier: Tier,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops counting.
    pub expires_at: Option<Timestamp>,
    /// What it may be used for.
    #[serde(flatten)]
    pub scope: Scope,
    /// When its text was last replaced.
    #[serde(default)]
    pub rotated_at: Option<Timestamp>,
    /// The text that is the key.
    hash: KeyText,
    /// The text before, and until when it counts.
    #[serde(default)]
    previous: Option<Previous>,
}

/// A text that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Previous {
    hash: KeyText,
    until: Timestamp,
}

/// When a key was last used.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct KeyUse {
    at: Timestamp,
}

impl Record for KeyUse {
    const VERSION: u32 = 1;
}

/// What a key is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to, as far as the deployment is; see [`Tier::OF_THE_DEPLOYMENT`].
    pub tier: Tier,
    /// When it stops counting.
    pub expires_at: Option<Timestamp>,
    /// What it may be used for.
    pub scope: Scope,
}

/// Why a key was not made, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The name is empty, too long or not to be shown.
    #[error("a key needs a name of 1 to {NAME_BYTES_MAX} bytes that can be seen")]
    Name,
    /// Its lists cannot be.
    #[error(transparent)]
    Scope(#[from] ScopeFault),
    /// It would be of no use.
    #[error("the key would have expired already")]
    Expired,
    /// It has expired, and would not count in another text either.
    #[error("the key has expired, and a new text of it would not count either: give it another end first")]
    Ended,
    /// The overlap is too long.
    #[error("the text before counts for at most {} s", OVERLAP_MAX.as_secs())]
    Overlap,
    /// There are too many.
    #[error("there are {KEYS_MAX} keys already")]
    TooMany,
    /// It is the only way left to manage keys.
    #[error("the last admin key that lasts a week stays: nobody could manage keys without it")]
    LastAdmin,
    /// Nothing has this id.
    #[error("there is no such key")]
    Unknown,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The first key's file cannot be written.
    #[error("the admin key cannot be written to the state directory")]
    File(#[source] std::io::Error),
}

/// Every key, in the store and in memory.
pub struct KeyStore {
    table: Followed<String, Sealed<KeyRecord>>,
    keyring: Arc<Keyring>,
    opener: Opener<KeyRecord>,
    uses: Table<String, KeyUse>,
    secret: NodeSecret,
    known: RwLock<Known>,
    last_used: RwLock<HashMap<String, Timestamp>>,
    unwritten: Mutex<HashSet<String>>,
}

impl KeyRecord {
    /// Tells whether the key counts, whatever its text.
    pub fn counts(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }

    /// Returns until when the text before the last rotation counts, where it still does.
    pub fn previous_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.previous.map(|previous| previous.until).filter(|until| *until > now)
    }

    fn is_admin(&self, now: Timestamp) -> bool {
        self.role == Role::Admin && self.counts(now)
    }

    /// Tells whether one of the key's texts counts: the one it has, or the one before while that still does.
    pub fn counts_in(&self, text: KeyText, now: Timestamp) -> bool {
        let previous = self.previous.filter(|previous| previous.until > now).map(|previous| previous.hash);
        let is_one = |own: KeyText| bool::from(own.0.ct_eq(&text.0));
        self.counts(now) && (is_one(self.hash) || previous.is_some_and(is_one))
    }

    /// Returns whom the key stands for when it is shown in a text of its own.
    fn into_principal(self, text: KeyText) -> Principal {
        let Self { id, name, role, tier, scope, .. } = self;
        Principal { id, name, role, tier, scope: Arc::new(scope), proof: Proof::Key(text) }
    }

    fn as_new(&self) -> NewKey {
        let Self { name, role, tier, expires_at, scope, .. } = self.clone();
        NewKey { name, role, tier, expires_at, scope }
    }
}

/// Tells whether a text is written as our keys are, checksum included; not whether it counts.
pub fn is_key_text(text: &str) -> bool {
    text::is_well_formed(text)
}

/// Tells whether a text holds one that is written as our keys are, wherever it stands.
pub fn holds_key_text(text: &str) -> bool {
    text::holds_well_formed(text)
}

/// Returns a text that is written as our keys are, and is none.
#[cfg(test)]
pub(super) fn any_text() -> String {
    text::generate()
}

impl KeyStore {
    /// Reads the keys of a store; their names are sealed under the keys of a ring.
    ///
    /// # Errors
    /// The store failed.
    pub fn open(store: &Store, secret: NodeSecret, keyring: Arc<Keyring>) -> Result<Self, StoreError> {
        let uses: Table<String, KeyUse> = store.table("key_uses");
        let last_used = uses.list(&KeyRange::all(), Order::Ascending, KEYS_MAX)?;
        let last_used = last_used.into_iter().map(|(id, used)| (id, used.at)).collect();
        let keys = Self {
            table: Followed::new(store.table("keys")),
            opener: Opener::new(Arc::clone(&keyring)),
            keyring,
            uses,
            secret,
            known: RwLock::default(),
            last_used: RwLock::new(last_used),
            unwritten: Mutex::default(),
        };
        keys.table
            .change(|fresh| keys.take_over(fresh), |batch| seal_old(&keys.table, &keys.keyring, batch))?;
        Ok(keys)
    }

    /// Takes over what other nodes changed. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.table.catch_up(|fresh| self.take_over(fresh))?;
        self.table.between(|| self.hold(self.opener.again()));
        Ok(())
    }

    fn take_over(&self, fresh: Vec<Fresh<String, Sealed<KeyRecord>>>) {
        // Before anything is locked: a name's key may have to be asked for.
        self.hold(self.opener.opened(fresh));
    }

    fn hold(&self, fresh: Vec<Fresh<String, KeyRecord>>) {
        let mut known = self.known.write();
        for one in fresh {
            match one {
                Fresh::Anew => *known = Known::default(),
                Fresh::Put { record, .. } => known.put(record),
                Fresh::Gone { key } => {
                    known.remove(&key);
                    self.last_used.write().remove(&key);
                }
            }
        }
    }

    /// Changes keys by what all nodes know of them.
    fn deciding<T>(&self, decide: impl FnMut(&mut Batch) -> Result<T, KeyError>) -> Result<T, KeyError> {
        self.table.change(|fresh| self.take_over(fresh), decide)
    }

    fn put_in(&self, batch: &mut Batch, record: &KeyRecord) -> Result<(), StoreError> {
        self.table.table().put_in(batch, &record.id, &Sealed::seal(record, &self.keyring)?)
    }

    /// Makes a key and returns it; it can never be shown again.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn create(&self, id: String, new: NewKey, now: Timestamp) -> Result<(KeyRecord, String), KeyError> {
        check(&new, now)?;
        let (record, key) = self.made(id, new, now);
        self.deciding(|batch| {
            if self.known.read().by_id.len() >= KEYS_MAX {
                return Err(KeyError::TooMany);
            }
            Ok(self.put_in(batch, &record)?)
        })?;
        Ok((record, key))
    }

    fn made(&self, id: String, new: NewKey, now: Timestamp) -> (KeyRecord, String) {
        let key = text::generate();
        let hash = self.hash(&key);
        let NewKey { name, role, tier, expires_at, scope } = new;
        let (created_at, rotated_at, previous) = (now, None, None);
        let record =
            KeyRecord { id, name, role, tier, created_at, expires_at, scope, rotated_at, hash, previous };
        (record, key)
    }

    /// Changes what a key is, by what `change` does to it; its text stays.
    ///
    /// # Errors
    /// See [`KeyError`]; the key is then as it was.
    pub fn change(
        &self,
        id: &str,
        mut change: impl FnMut(&mut NewKey),
        now: Timestamp,
    ) -> Result<KeyRecord, KeyError> {
        self.deciding(|batch| {
            let before = self.get(id).ok_or(KeyError::Unknown)?;
            let mut new = before.as_new();
            change(&mut new);
            check(&new, now)?;
            let ends_sooner = new.expires_at.is_some_and(|at| before.expires_at.is_none_or(|was| at < was));
            let loses_admin = new.role != Role::Admin || ends_sooner;
            if loses_admin && !self.known.read().can_do_without(&BTreeSet::from([&before.id]), now) {
                return Err(KeyError::LastAdmin);
            }
            let NewKey { name, role, tier, expires_at, scope } = new;
            let after = KeyRecord { name, role, tier, expires_at, scope, ..before };
            self.put_in(batch, &after)?;
            Ok(after)
        })
    }

    /// Replaces the text of a key that counts; the text before counts for `overlap` more. Returns the new text, which can
    /// never be shown again.
    ///
    /// # Errors
    /// See [`KeyError`]; the key is then as it was.
    pub fn rotate(
        &self,
        id: &str,
        overlap: Duration,
        now: Timestamp,
    ) -> Result<(KeyRecord, String), KeyError> {
        if overlap > OVERLAP_MAX {
            return Err(KeyError::Overlap);
        }
        let key = text::generate();
        let until = now.checked_add(overlap).unwrap_or(Timestamp::MAX);
        let after = self.deciding(|batch| {
            let before = self.get(id).ok_or(KeyError::Unknown)?;
            if !before.counts(now) {
                return Err(KeyError::Ended);
            }
            let previous = (until > now).then_some(Previous { hash: before.hash, until });
            let after = KeyRecord { hash: self.hash(&key), previous, rotated_at: Some(now), ..before };
            self.put_in(batch, &after)?;
            Ok(after)
        })?;
        Ok((after, key))
    }

    /// Returns every key, oldest first.
    pub fn list(&self) -> Vec<KeyRecord> {
        let mut keys: Vec<KeyRecord> = self.known.read().by_id.values().cloned().collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }

    /// Returns one key.
    pub fn get(&self, id: &str) -> Option<KeyRecord> {
        self.known.read().by_id.get(id).cloned()
    }

    /// Returns whom the key of an id stands for, in one of its texts; `None` for one that is unknown, revoked or
    /// expired, or whose text was replaced.
    pub fn principal(&self, id: &str, text: KeyText, now: Timestamp) -> Option<Principal> {
        self.get(id).filter(|key| key.counts_in(text, now)).map(|key| key.into_principal(text))
    }

    /// Returns when a key was last used.
    pub fn last_used(&self, id: &str) -> Option<Timestamp> {
        self.last_used.read().get(id).copied()
    }

    /// Returns when each key was last used, on whatever node; another node's uses come up to a minute late. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn last_uses(&self) -> Result<HashMap<String, Timestamp>, StoreError> {
        let written = self.uses.list(&KeyRange::all(), Order::Ascending, KEYS_MAX)?;
        let mut uses = self.last_used.read().clone();
        for (id, KeyUse { at }) in written {
            let known = uses.entry(id).or_insert(at);
            *known = at.max(*known);
        }
        Ok(uses)
    }

    /// Removes a key; tells whether there was one. Blocks for a disk sync.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn revoke(&self, id: &str, now: Timestamp) -> Result<bool, KeyError> {
        Ok(self.revoke_all(&[id.to_owned()], now)? > 0)
    }

    /// Removes several keys, or none of them; tells how many there were. Blocks for a disk sync.
    ///
    /// # Errors
    /// See [`KeyError`]; all are then as they were.
    pub fn revoke_all(&self, ids: &[String], now: Timestamp) -> Result<usize, KeyError> {
        let ids: BTreeSet<&String> = ids.iter().collect();
        self.deciding(|batch| {
            let known = self.known.read();
            let gone: Vec<&KeyRecord> = ids.iter().filter_map(|id| known.by_id.get(*id)).collect();
            if !known.can_do_without(&ids, now) {
                return Err(KeyError::LastAdmin);
            }
            for record in &gone {
                self.table.table().delete_in(batch, &record.id);
                self.uses.delete_in(batch, &record.id);
            }
            Ok(gone.len())
        })
    }

    /// Returns whom a key stands for; `None` for what is no key, unknown, revoked, replaced or expired.
    pub fn authenticate(&self, key: &str, now: Timestamp) -> Option<Principal> {
        if !text::is_well_formed(key) {
            return None;
        }
        let hash = self.hash(key);
        let known = self.known.read();
        let record = known.by_hash.get(&hash).and_then(|id| known.by_id.get(id))?;
        let record = record.counts_in(hash, now).then(|| record.clone())?;
        drop(known);
        self.note_use(&record.id, now);
        Some(record.into_principal(hash))
    }

    /// Writes down every minute, and when `shutdown` resolves, which keys were used.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let mut is_over = false;
        while !is_over {
            tokio::select! {
                () = &mut shutdown => is_over = true,
                () = tokio::time::sleep(NOTE_EVERY) => {}
            }
            let keys = Arc::clone(&self);
            let written = tokio::task::spawn_blocking(move || keys.write_uses()).await;
            if !matches!(written, Ok(Ok(()))) {
                tracing::warn!("the last uses of keys could not be written down");
            }
        }
    }

    /// Writes down which keys were used since the last time.
    ///
    /// # Errors
    /// The store failed.
    pub fn write_uses(&self) -> Result<(), StoreError> {
        let ids = std::mem::take(&mut *self.unwritten.lock());
        let mut batch = Batch::default();
        // A key that was revoked meanwhile stays forgotten.
        let known = self.known.read();
        for id in ids.iter().filter(|id| known.by_id.contains_key(*id)) {
            if let Some(at) = self.last_used(id) {
                self.uses.put_in(&mut batch, id, &KeyUse { at })?;
            }
        }
        self.uses.store().commit(&batch)
    }

    /// Notes a use, once a second at most.
    fn note_use(&self, id: &str, now: Timestamp) {
        if self.last_used(id).is_none_or(|at| now.as_second() > at.as_second()) {
            self.last_used.write().insert(id.to_owned(), now);
            self.unwritten.lock().insert(id.to_owned());
        }
    }

    fn hash(&self, key: &str) -> KeyText {
        KeyText(self.secret.hash(PURPOSE, key.as_bytes()))
    }
}

fn check(new: &NewKey, now: Timestamp) -> Result<(), KeyError> {
    if new.name.trim().is_empty() || new.name.len() > NAME_BYTES_MAX || !is_label(&new.name) {
        return Err(KeyError::Name);
    }
    new.scope.check()?;
    if new.expires_at.is_some_and(|at| at <= now) { Err(KeyError::Expired) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
