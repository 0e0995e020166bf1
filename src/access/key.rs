//! API keys: `pk_`, 32 random bytes in base 62, a checksum. Only a keyed hash is kept.
//!
//! The hash is the key a record is stored under, so a lookup compares nothing byte by byte with what
//! the caller sent; the checksum lets a mistyped key fail before the store is asked.

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;

use jiff::Timestamp;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::Serialize;
use subtle::ConstantTimeEq;

use super::credential::Principal;
use super::credential::Proof;
use super::role::Role;
use super::secret::NodeSecret;
use super::secret::write_private;
use super::tier::Tier;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The most keys of a deployment.
pub const KEYS_MAX: usize = 10_000;
/// The most routes that a key names.
pub const ROUTES_MAX: usize = 100;
/// The longest name of a key, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

const PREFIX: &str = "pk_";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BODY_DIGITS: usize = 43;
const CHECKSUM_DIGITS: usize = 6;
const PURPOSE: &str = "api-key";
const ADMIN_KEY_FILE: &str = "admin.key";

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The key's id, which may be shown.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to.
    pub tier: Tier,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops counting.
    pub expires_at: Option<Timestamp>,
    /// The provider routes it may use; empty: all.
    #[serde(default)]
    pub routes: Vec<String>,
    /// The keyed hash of the key.
    hash: [u8; 32],
}

impl Record for KeyRecord {
    const VERSION: u32 = 1;
}

/// What a new key is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to.
    pub tier: Tier,
    /// When it stops counting.
    pub expires_at: Option<Timestamp>,
    /// The provider routes it may use; empty: all.
    pub routes: Vec<String>,
}

/// Why a key was not made or removed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The name is empty or too long.
    #[error("a key needs a name of 1 to {NAME_BYTES_MAX} bytes")]
    Name,
    /// It names too many routes, or one that cannot be.
    #[error("a key names at most {ROUTES_MAX} routes, each of at most {NAME_BYTES_MAX} bytes")]
    Routes,
    /// It would be of no use.
    #[error("the key would expire before it is made")]
    Expired,
    /// There are too many.
    #[error("there are {KEYS_MAX} keys already")]
    TooMany,
    /// It is the only way left to manage keys.
    #[error("the last admin key cannot be removed")]
    LastAdmin,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The first key's file cannot be written.
    #[error("the admin key cannot be written to the state directory")]
    File(#[source] std::io::Error),
}

/// Every key, in the store and in memory.
pub struct KeyStore {
    table: Table<String, KeyRecord>,
    secret: NodeSecret,
    by_hash: RwLock<HashMap<[u8; 32], KeyRecord>>,
    last_used: RwLock<HashMap<String, Timestamp>>,
}

impl KeyStore {
    /// Reads the keys of a store.
    ///
    /// # Errors
    /// The store failed.
    pub fn open(store: &Store, secret: NodeSecret) -> Result<Self, StoreError> {
        let table: Table<String, KeyRecord> = store.table("keys");
        let known = table.list(&KeyRange::all(), Order::Ascending, KEYS_MAX)?;
        let by_hash = known.into_iter().map(|(_, record)| (record.hash, record)).collect();
        Ok(Self { table, secret, by_hash: RwLock::new(by_hash), last_used: RwLock::default() })
    }

    /// Makes the first admin key where there is no key at all; returns the path of the file it is in.
    ///
    /// # Errors
    /// The store or the file failed.
    pub fn ensure_admin(
        &self,
        state: &Path,
        id: String,
        now: Timestamp,
    ) -> Result<Option<PathBuf>, KeyError> {
        if !self.by_hash.read().is_empty() {
            return Ok(None);
        }
        let new = NewKey {
            name: "first admin".to_owned(),
            role: Role::Admin,
            tier: Tier::Enterprise,
            expires_at: None,
            routes: Vec::new(),
        };
        let (_, key) = self.create(id, new, now)?;
        let path = state.join(ADMIN_KEY_FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(KeyError::File(error)),
            _ => write_private(&path, key.as_bytes()).map_err(KeyError::File)?,
        }
        Ok(Some(path))
    }

    /// Makes a key and returns it; it can never be shown again.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn create(&self, id: String, new: NewKey, now: Timestamp) -> Result<(KeyRecord, String), KeyError> {
        if new.name.trim().is_empty() || new.name.len() > NAME_BYTES_MAX {
            return Err(KeyError::Name);
        }
        let fits = |route: &String| (1..=NAME_BYTES_MAX).contains(&route.len());
        if new.routes.len() > ROUTES_MAX || !new.routes.iter().all(fits) {
            return Err(KeyError::Routes);
        }
        if new.expires_at.is_some_and(|at| at <= now) {
            return Err(KeyError::Expired);
        }
        if self.by_hash.read().len() >= KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        let key = generate();
        let NewKey { name, role, tier, expires_at, routes } = new;
        let hash = self.secret.hash(PURPOSE, key.as_bytes());
        let record = KeyRecord { id, name, role, tier, created_at: now, expires_at, routes, hash };
        self.table.put_durable(&record.id, &record)?;
        self.by_hash.write().insert(hash, record.clone());
        Ok((record, key))
    }

    /// Returns every key, oldest first.
    pub fn list(&self) -> Vec<KeyRecord> {
        let mut keys: Vec<KeyRecord> = self.by_hash.read().values().cloned().collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }

    /// Returns when a key was last used since the process began.
    pub fn last_used(&self, id: &str) -> Option<Timestamp> {
        self.last_used.read().get(id).copied()
    }

    /// Removes a key; tells whether there was one.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn revoke(&self, id: &str) -> Result<bool, KeyError> {
        let mut by_hash = self.by_hash.write();
        let Some(record) = by_hash.values().find(|record| record.id == id).cloned() else { return Ok(false) };
        let admins = by_hash.values().filter(|record| record.role == Role::Admin).count();
        if record.role == Role::Admin && admins == 1 {
            return Err(KeyError::LastAdmin);
        }
        self.table.delete(&record.id)?;
        by_hash.remove(&record.hash);
        Ok(true)
    }

    /// Returns whom a key stands for; `None` for what is no key, unknown, revoked or expired.
    pub fn authenticate(&self, key: &str, now: Timestamp) -> Option<Principal> {
        if !is_well_formed(key) {
            return None;
        }
        let hash = self.secret.hash(PURPOSE, key.as_bytes());
        let by_hash = self.by_hash.read();
        let record = by_hash.get(&hash)?;
        let same = bool::from(record.hash.ct_eq(&hash));
        if !same || record.expires_at.is_some_and(|at| at <= now) {
            return None;
        }
        let KeyRecord { id, name, role, tier, routes, .. } = record.clone();
        drop(by_hash);
        let known = self.last_used(&id);
        if known.is_none_or(|at| now.as_second() > at.as_second()) {
            self.last_used.write().insert(id.clone(), now);
        }
        Some(Principal { id, name, role, tier, routes, proof: Proof::Key })
    }

    /// Returns the role of a key that counts.
    pub fn counts(&self, id: &str, now: Timestamp) -> Option<Role> {
        let by_hash = self.by_hash.read();
        let found = by_hash.values().find(|record| record.id == id)?;
        found.expires_at.is_none_or(|at| at > now).then_some(found.role)
    }
}

impl KeyStore {
    /// Returns whom the key of an id stands for; `None` for one that is unknown, revoked or expired.
    pub fn principal(&self, id: &str, now: Timestamp) -> Option<Principal> {
        let by_hash = self.by_hash.read();
        let record = by_hash.values().find(|record| record.id == id)?;
        if record.expires_at.is_some_and(|at| at <= now) {
            return None;
        }
        let KeyRecord { id, name, role, tier, routes, .. } = record.clone();
        Some(Principal { id, name, role, tier, routes, proof: Proof::Key })
    }
}

fn generate() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    let body = base62(&bytes, BODY_DIGITS);
    format!("{PREFIX}{body}{}", checksum(&body))
}

/// Writes bytes, read as one big-endian number, in a fixed count of digits.
fn base62(bytes: &[u8], digits: usize) -> String {
    let mut number = bytes.to_vec();
    let mut written = vec![b'0'; digits];
    for digit in written.iter_mut().rev() {
        let mut remainder = 0u32;
        for byte in &mut number {
            let value = remainder << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            remainder = value % 62;
        }
        *digit = BASE62[remainder as usize];
    }
    String::from_utf8(written).expect("the digits are ASCII")
}

fn checksum(body: &str) -> String {
    base62(&crc32fast::hash(body.as_bytes()).to_be_bytes(), CHECKSUM_DIGITS)
}

fn is_well_formed(key: &str) -> bool {
    let Some(rest) = key.strip_prefix(PREFIX) else { return false };
    let Some((body, sum)) = rest.split_at_checked(BODY_DIGITS) else { return false };
    sum.len() == CHECKSUM_DIGITS && checksum(body) == sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(store: &Store, secret: &NodeSecret) -> KeyStore {
        KeyStore::open(store, secret.clone()).unwrap()
    }

    fn new(role: Role, expires_at: Option<Timestamp>) -> NewKey {
        NewKey { name: "test".to_owned(), role, tier: Tier::Community, expires_at, routes: Vec::new() }
    }

    #[test]
    fn a_key_counts_until_it_expires_or_is_revoked() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let now = Timestamp::from_second(1_000).unwrap();
        let later = Timestamp::from_second(2_000).unwrap();
        let opened = keys(&store, &secret);
        let (_, admin) = opened.create("a".into(), new(Role::Admin, None), now).unwrap();
        let (_, short) = opened.create("b".into(), new(Role::Service, Some(later)), now).unwrap();
        assert_eq!(opened.authenticate(&short, now).map(|found| found.role), Some(Role::Service));
        assert_eq!(opened.authenticate(&short, later), None);
        // The records outlive the process; the keys themselves are nowhere.
        let again = keys(&store, &secret);
        assert_eq!(again.authenticate(&admin, later).map(|found| found.id), Some("a".to_owned()));
        assert!(again.revoke("b").unwrap() && !again.revoke("b").unwrap());
        assert_eq!(again.authenticate(&short, now), None);
        assert!(matches!(again.revoke("a"), Err(KeyError::LastAdmin)));
        assert_eq!(keys(&store, &NodeSecret::random()).authenticate(&admin, now), None);
    }

    #[test]
    fn a_mistyped_key_is_known_by_its_checksum() {
        let key = generate();
        assert!(is_well_formed(&key) && key.len() == 52);
        let mut typo = key.clone().into_bytes();
        typo[10] = if typo[10] == b'x' { b'y' } else { b'x' };
        assert!(!is_well_formed(std::str::from_utf8(&typo).unwrap()));
        assert!(!is_well_formed("pk_") && !is_well_formed("sk_abc") && !is_well_formed("pk_\u{e9}"));
    }
}
