//! The deployment's own signing keys: Ed25519, kept sealed in the store, replaced in time.
//!
//! A ring serves one purpose; a key of one ring is never tried on what another has signed. The newest
//! key signs. A key that was replaced goes on verifying for as long as something it signed may still
//! count, then it is forgotten: nothing breaks at a rotation, and a lost key is of no use for long.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::jose::KeyFault;
use super::jose::SigningKey;
use super::jose::VerifyingKey;
use super::secret::NodeSecret;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The most keys of one ring; past it a rotation forgets the oldest.
pub const KEYS_MAX: usize = 16;

const SEAL: &str = "signing-key";

/// How long keys sign, and how long they count after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationConfig {
    /// The age at which a key is replaced.
    pub replace_after: Duration,
    /// How long a replaced key goes on verifying: no less than what it signed may count.
    pub overlap: Duration,
}

/// What is kept of a key.
#[derive(Clone, Serialize, Deserialize)]
struct KeyRecord {
    created_at: Timestamp,
    /// When it stopped signing.
    replaced_at: Option<Timestamp>,
    /// The private key in PEM, sealed with the node's secret.
    sealed: Vec<u8>,
}

impl Record for KeyRecord {
    const VERSION: u32 = 1;
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored key was sealed with another secret, or is damaged.
    #[error("a signing key in the store was not sealed by this node's secret")]
    Sealed,
    /// A stored key is none.
    #[error(transparent)]
    Key(#[from] KeyFault),
}

/// The keys of one purpose, newest last.
pub struct KeyRing {
    table: Table<String, KeyRecord>,
    secret: NodeSecret,
    config: RotationConfig,
    keys: ArcSwap<Vec<RingKey>>,
    changing: Mutex<()>,
}

/// One key of a ring.
#[derive(Clone)]
pub struct RingKey {
    /// Its name in the header of what it signs: the thumbprint of RFC 7638.
    pub id: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stopped signing.
    pub replaced_at: Option<Timestamp>,
    key: SigningKey,
}

impl RingKey {
    /// Returns the 32 bytes of the public key.
    pub fn public(&self) -> &[u8] {
        self.key.public()
    }
}

impl KeyRing {
    /// Reads the keys of a table, and makes the first one.
    ///
    /// # Errors
    /// See [`SigningError`].
    pub fn open(
        store: &Store,
        table: &'static str,
        secret: NodeSecret,
        config: RotationConfig,
        now: Timestamp,
    ) -> Result<Self, SigningError> {
        let table: Table<String, KeyRecord> = store.table(table);
        let mut keys = Vec::new();
        for (id, record) in table.list(&KeyRange::all(), Order::Ascending, KEYS_MAX)? {
            let pem = secret.unseal(SEAL, &record.sealed).ok_or(SigningError::Sealed)?;
            let key = SigningKey::from_pem(&pem)?;
            keys.push(RingKey { id, created_at: record.created_at, replaced_at: record.replaced_at, key });
        }
        keys.sort_by_key(|key| (key.replaced_at.is_none(), key.created_at));
        let keys = ArcSwap::from_pointee(keys);
        let ring = Self { table, secret, config, keys, changing: Mutex::new(()) };
        ring.maintain(now)?;
        Ok(ring)
    }

    /// Replaces a key that is old enough, and forgets those that count no more. Cheap when nothing is due.
    ///
    /// # Errors
    /// The store failed; the keys are as they were.
    pub fn maintain(&self, now: Timestamp) -> Result<(), SigningError> {
        let keys = self.keys.load();
        let newest = keys.last().filter(|key| key.replaced_at.is_none());
        let is_due = newest.is_none_or(|key| now >= later(key.created_at, self.config.replace_after));
        let is_over = keys.iter().any(|key| self.is_over(key, now));
        if is_due {
            return self.rotate(now);
        }
        if is_over { self.change(|keys| keys.retain(|key| !self.is_over(key, now))) } else { Ok(()) }
    }

    /// Makes a new key, which signs from now on; the one before goes on verifying for the overlap.
    ///
    /// # Errors
    /// The store failed; the keys are as they were.
    pub fn rotate(&self, now: Timestamp) -> Result<(), SigningError> {
        self.change(|keys| {
            keys.retain(|key| !self.is_over(key, now));
            let signing = keys.iter_mut().filter(|key| key.replaced_at.is_none());
            signing.for_each(|key| key.replaced_at = Some(now));
            keys.drain(..(keys.len() + 1).saturating_sub(KEYS_MAX));
            let key = SigningKey::generate();
            keys.push(RingKey { id: key.thumbprint(), created_at: now, replaced_at: None, key });
        })
    }

    /// Signs claims as a compact JWS that names its key.
    pub fn sign(&self, claims: &impl Serialize) -> String {
        let keys = self.keys.load();
        let newest = keys.last().expect("a ring that was opened has a key");
        newest.key.sign(claims, Some(&newest.id))
    }

    /// Returns what verifies, newest first.
    pub fn verifying(&self, now: Timestamp) -> Vec<VerifyingKey> {
        let keys = self.keys.load();
        let counting = keys.iter().rev().filter(|key| !self.is_over(key, now));
        counting.map(|key| key.key.verifying()).collect()
    }

    /// Returns every key that verifies, newest first, for those who verify without asking us.
    pub fn keys(&self, now: Timestamp) -> Vec<RingKey> {
        self.keys.load().iter().rev().filter(|key| !self.is_over(key, now)).cloned().collect()
    }

    fn is_over(&self, key: &RingKey, now: Timestamp) -> bool {
        key.replaced_at.is_some_and(|at| now >= later(at, self.config.overlap))
    }

    /// Changes the keys in the store, then in memory.
    fn change(&self, change: impl FnOnce(&mut Vec<RingKey>)) -> Result<(), SigningError> {
        let _changing = self.changing.lock();
        let before = self.keys.load_full();
        let mut after = Vec::clone(&before);
        change(&mut after);
        let mut batch = crate::store::Batch::default();
        for gone in before.iter().filter(|old| after.iter().all(|new| new.id != old.id)) {
            self.table.delete_in(&mut batch, &gone.id);
        }
        for key in &after {
            let sealed = self.secret.seal(SEAL, key.key.to_pem().as_bytes());
            let record = KeyRecord { created_at: key.created_at, replaced_at: key.replaced_at, sealed };
            self.table.put_in(&mut batch, &key.id, &record)?;
        }
        self.table.store().commit_durable(&batch)?;
        self.keys.store(Arc::new(after));
        Ok(())
    }
}

/// Returns a moment that lies later, within the calendar.
pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;
    use crate::access::jose;
    use crate::access::jose::TokenFault;

    const CONFIG: RotationConfig =
        RotationConfig { replace_after: Duration::from_secs(1000), overlap: Duration::from_secs(100) };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn verified(ring: &KeyRing, token: &str, second: i64) -> Result<Value, TokenFault> {
        jose::verify(token, &ring.verifying(at(second)))
    }

    #[test]
    fn a_replaced_key_counts_for_the_overlap_alone() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let open = |second| KeyRing::open(&store, "ring", secret.clone(), CONFIG, at(second)).unwrap();
        let ring = open(0);
        let first = ring.sign(&json!({}));
        ring.maintain(at(999)).unwrap();
        assert_eq!(ring.keys(at(999)).len(), 1);
        // The keys outlive the process, and are replaced while it was away, too.
        let ring = open(1000);
        let second = ring.sign(&json!({}));
        assert_eq!(ring.keys(at(1000)).len(), 2);
        assert!(verified(&ring, &first, 1099).is_ok() && verified(&ring, &second, 1099).is_ok());
        assert_eq!(verified(&ring, &first, 1100), Err(TokenFault::Forged));
        ring.maintain(at(1100)).unwrap();
        assert_eq!(open(1100).keys(at(1100)).len(), 1);
        assert!(verified(&open(1101), &second, 1101).is_ok());
    }

    #[test]
    fn the_store_alone_is_no_key_and_rings_do_not_know_each_other() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let ring = KeyRing::open(&store, "ring", secret.clone(), CONFIG, at(0)).unwrap();
        let other = KeyRing::open(&store, "other", secret, CONFIG, at(0)).unwrap();
        assert_eq!(verified(&other, &ring.sign(&json!({})), 0), Err(TokenFault::Forged));
        let stolen = KeyRing::open(&store, "ring", NodeSecret::random(), CONFIG, at(0));
        assert!(matches!(stolen.err(), Some(SigningError::Sealed)));
        for _ in 0..2 * KEYS_MAX {
            ring.rotate(at(1)).unwrap();
        }
        assert_eq!(ring.keys(at(1)).len(), KEYS_MAX);
    }
}
