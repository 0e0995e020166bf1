//! API keys: made once, shown once, stored as keyed hashes.
//!
//! A key is `pk_`, 32 random bytes as 43 base-62 digits, and their CRC-32 as 6 more, so that a mistyped key, or
//! a text that only looks like one, is turned away without a look at the store.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use subtle::ConstantTimeEq;

use crate::clock::Clock;
use crate::id::Ulid;
use crate::id::UlidSource;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

use super::credential::Credential;
use super::role::Role;
use super::secret;
use super::secret::NodeSecret;
use super::tier::Tier;

/// The most keys there may be.
pub const KEYS_MAX: usize = 100_000;
/// The longest name of a key, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

const PREFIX: &str = "pk_";
const TABLE: &str = "api_keys";
const ADMIN_KEY_FILE: &str = "admin.key";
const PURPOSE: &[u8] = b"api-key";
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BODY_DIGITS: usize = 43;
const SUM_DIGITS: usize = 6;

/// Why a key could not be made, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The name is empty or longer than [`NAME_BYTES_MAX`].
    #[error("a key's name must have between 1 and {NAME_BYTES_MAX} bytes")]
    Name,
    /// The expiry is not in the future.
    #[error("a key must expire in the future")]
    Expiry,
    /// There are [`KEYS_MAX`] keys: revoke some.
    #[error("there may be no more than {KEYS_MAX} keys")]
    TooMany,
    /// A stored record is not a key.
    #[error("the record of key {0} is damaged")]
    Damaged(Ulid),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The first admin key could not be written to its file.
    #[error("the admin key could not be written")]
    AdminKey(#[from] io::Error),
}

/// Who a verified credential belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The key's id: what audit entries name.
    pub key_id: Ulid,
    /// The key's name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How often it may come; `None`: as the deployment's tier says.
    pub tier: Option<Tier>,
}

/// What is asked for when a key is made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How often it may come; `None`: as the deployment's tier says.
    pub tier: Option<Tier>,
    /// When it stops working; `None`: never.
    pub expires_at: Option<Timestamp>,
}

/// A key without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Whom the key stands for.
    pub principal: Principal,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working; `None`: never.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, as far as is known.
    pub last_used_at: Option<Timestamp>,
}

/// All keys, held in memory; the store has the copy that lasts.
pub struct KeyStore {
    table: Table<Ulid, StoredKey>,
    secret: NodeSecret,
    clock: Arc<dyn Clock>,
    ids: UlidSource,
    known: ArcSwap<Known>,
    /// Held while keys are made or revoked.
    changes: Mutex<()>,
}

/// Keys by the first half of their hash.
type Known = HashMap<[u8; 16], Arc<Key>>;

struct Key {
    hash: [u8; 32],
    info: KeyInfo,
    /// Unix milliseconds; 0: not since the start.
    used_at_ms: AtomicI64,
}

/// The stored form of a key, version 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredKey {
    hash: [u8; 32],
    name: String,
    role: String,
    tier: Option<String>,
    created_unix_ms: i64,
    expires_unix_ms: Option<i64>,
    last_used_unix_ms: Option<i64>,
}

impl Record for StoredKey {
    const VERSION: u32 = 1;
}

impl KeyStore {
    /// Opens the keys. Where there are none, an admin key is made and written to `admin.key` in `directory`,
    /// readable by its owner only; its path is returned.
    ///
    /// # Errors
    /// When the store fails or the file cannot be written.
    pub fn open(
        store: &Store,
        secret: NodeSecret,
        directory: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Option<PathBuf>), KeyError> {
        let table: Table<Ulid, StoredKey> = store.table(TABLE);
        let mut known = Known::new();
        for (id, stored) in table.list(&KeyRange::all(), Order::Ascending, KEYS_MAX)? {
            let key = stored.key(id).ok_or(KeyError::Damaged(id))?;
            known.insert(first_half(&key.hash), Arc::new(key));
        }
        let first = known.is_empty();
        let known = ArcSwap::from_pointee(known);
        let keys = Self { table, secret, clock, ids: UlidSource::default(), known, changes: Mutex::new(()) };
        if !first {
            return Ok((keys, None));
        }
        // The file comes first: a crash in between leaves a file that the next start replaces.
        let text = new_text();
        secret::write_private(directory, ADMIN_KEY_FILE, format!("{text}\n").as_bytes())?;
        let admin = NewKey { name: "admin".to_owned(), role: Role::Admin, tier: None, expires_at: None };
        keys.add(admin, &text)?;
        Ok((keys, Some(directory.join(ADMIN_KEY_FILE))))
    }

    /// Makes a key and returns it with its secret, which is not kept. Blocks for the disk.
    ///
    /// # Errors
    /// When the request is not sound or the store fails.
    pub fn create(&self, new: NewKey) -> Result<(KeyInfo, Credential), KeyError> {
        if new.name.trim().is_empty() || new.name.len() > NAME_BYTES_MAX {
            return Err(KeyError::Name);
        }
        if new.expires_at.is_some_and(|expiry| expiry <= self.clock.now()) {
            return Err(KeyError::Expiry);
        }
        let text = new_text();
        let info = self.add(new, &text)?;
        Ok((info, Credential::new(text)))
    }

    /// Returns all keys, oldest first.
    pub fn list(&self) -> Vec<KeyInfo> {
        let mut all: Vec<KeyInfo> = self.known.load().values().map(|key| key.info_now()).collect();
        all.sort_by_key(|info| info.principal.key_id);
        all
    }

    /// Revokes a key at once and for good; tells whether there was one. Blocks for the disk.
    ///
    /// # Errors
    /// When the store fails; the key is revoked in memory all the same.
    pub fn revoke(&self, id: Ulid) -> Result<bool, KeyError> {
        let _changing = self.changes.lock();
        let mut known = Known::clone(&self.known.load());
        let before = known.len();
        known.retain(|_, key| key.info.principal.key_id != id);
        let found = known.len() < before;
        self.known.store(Arc::new(known));
        let stored = self.table.get(&id)?.is_some();
        if stored {
            self.table.update(&id, |_| None)?;
            self.table.store().durable()?;
        }
        Ok(found || stored)
    }

    /// Returns whom a credential belongs to, or `None` when it is no valid key.
    pub fn verify(&self, credential: &Credential) -> Option<Principal> {
        let text = credential.expose();
        if !is_well_formed(text) {
            return None;
        }
        let hash = self.secret.keyed_hash(PURPOSE, text.as_bytes());
        let known = self.known.load();
        let key = known.get(&first_half(&hash))?;
        let now = self.clock.now();
        let expired = key.info.expires_at.is_some_and(|expiry| expiry <= now);
        if !bool::from(key.hash.ct_eq(&hash)) || expired {
            return None;
        }
        key.used_at_ms.store(now.as_millisecond(), Ordering::Relaxed);
        Some(key.info.principal.clone())
    }

    /// Writes down when keys were last used. To be called now and then; blocks.
    ///
    /// # Errors
    /// When the store fails.
    pub fn save_last_use(&self) -> Result<(), KeyError> {
        let _changing = self.changes.lock();
        for key in self.known.load().values() {
            let info = key.info_now();
            if key.used_at_ms.load(Ordering::Relaxed) > 0 {
                self.table.update(&info.principal.key_id, |stored| {
                    let last_used_unix_ms = info.last_used_at.map(Timestamp::as_millisecond);
                    stored.map(|stored| StoredKey { last_used_unix_ms, ..stored })
                })?;
            }
        }
        Ok(())
    }

    fn add(&self, new: NewKey, text: &str) -> Result<KeyInfo, KeyError> {
        let _changing = self.changes.lock();
        let mut known = Known::clone(&self.known.load());
        if known.len() >= KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        let created_at = self.clock.now();
        let stored = StoredKey {
            hash: self.secret.keyed_hash(PURPOSE, text.as_bytes()),
            name: new.name,
            role: new.role.as_str().to_owned(),
            tier: new.tier.map(|tier| tier.as_str().to_owned()),
            created_unix_ms: created_at.as_millisecond(),
            expires_unix_ms: new.expires_at.map(Timestamp::as_millisecond),
            last_used_unix_ms: None,
        };
        let id = self.ids.next(created_at.as_millisecond());
        self.table.put_durable(&id, &stored)?;
        let key = Arc::new(stored.key(id).ok_or(KeyError::Damaged(id))?);
        known.insert(first_half(&key.hash), key.clone());
        self.known.store(Arc::new(known));
        Ok(key.info.clone())
    }
}

impl Key {
    fn info_now(&self) -> KeyInfo {
        let used = self.used_at_ms.load(Ordering::Relaxed);
        let used = Timestamp::from_millisecond(used).ok().filter(|_| used > 0);
        KeyInfo { last_used_at: used.or(self.info.last_used_at), ..self.info.clone() }
    }
}

impl StoredKey {
    fn key(self, id: Ulid) -> Option<Key> {
        let tier = self.tier.map(|tier| tier.parse()).transpose().ok()?;
        let principal = Principal { key_id: id, name: self.name, role: self.role.parse().ok()?, tier };
        let info = KeyInfo {
            principal,
            created_at: Timestamp::from_millisecond(self.created_unix_ms).ok()?,
            expires_at: self.expires_unix_ms.map(Timestamp::from_millisecond).transpose().ok()?,
            last_used_at: self.last_used_unix_ms.map(Timestamp::from_millisecond).transpose().ok()?,
        };
        Some(Key { hash: self.hash, info, used_at_ms: AtomicI64::new(0) })
    }
}

fn first_half(hash: &[u8; 32]) -> [u8; 16] {
    *hash.first_chunk().expect("32 bytes have a first half")
}

/// Returns the text of a key that nobody else has.
fn new_text() -> String {
    let bytes = secret::random();
    let body = base62(&bytes, BODY_DIGITS);
    let sum = base62(&crc32fast::hash(body.as_bytes()).to_be_bytes(), SUM_DIGITS);
    format!("{PREFIX}{body}{sum}")
}

fn is_well_formed(text: &str) -> bool {
    let Some((body, sum)) = text.strip_prefix(PREFIX).and_then(|rest| rest.split_at_checked(BODY_DIGITS))
    else {
        return false;
    };
    base62(&crc32fast::hash(body.as_bytes()).to_be_bytes(), SUM_DIGITS) == sum
}

/// Returns a big-endian number as base-62 digits, padded on the left.
fn base62(number: &[u8], length: usize) -> String {
    let mut number = number.to_vec();
    let mut digits = vec![b'0'; length];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            rest = value % 62;
        }
        *digit = DIGITS[rest as usize];
    }
    String::from_utf8(digits).expect("the digits are ASCII")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;
    use crate::store::Batch;

    struct Setup {
        folder: tempfile::TempDir,
        store: Store,
        clock: Arc<ManualClock>,
    }

    impl Setup {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::new(Timestamp::from_second(1_000_000).unwrap()));
            Self { folder: tempfile::tempdir().unwrap(), store: Store::in_memory(), clock }
        }

        fn open(&self) -> (KeyStore, Option<PathBuf>) {
            let secret = NodeSecret::open(self.folder.path()).unwrap();
            KeyStore::open(&self.store, secret, self.folder.path(), self.clock.clone()).unwrap()
        }
    }

    fn new(name: &str, expires_at: Option<Timestamp>) -> NewKey {
        NewKey { name: name.to_owned(), role: Role::Service, tier: Some(Tier::Developer), expires_at }
    }

    #[test]
    fn the_first_start_leaves_an_admin_key_for_its_owner_only() {
        let setup = Setup::new();
        let (keys, path) = setup.open();
        let path = path.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(path).unwrap();
        let principal = keys.verify(&Credential::new(text.trim().to_owned())).unwrap();
        assert_eq!((principal.role, principal.name.as_str()), (Role::Admin, "admin"));
        let (again, path) = setup.open();
        assert_eq!(path, None);
        assert_eq!(again.verify(&Credential::new(text.trim().to_owned())), Some(principal));
    }

    #[test]
    fn keys_work_until_they_expire_or_are_revoked() {
        let setup = Setup::new();
        let (keys, _) = setup.open();
        let expiry = setup.clock.now() + Duration::from_secs(60);
        let (lasting, lasting_secret) = keys.create(new("lasting", None)).unwrap();
        let (_, short_secret) = keys.create(new("short", Some(expiry))).unwrap();
        assert_eq!(keys.verify(&lasting_secret), Some(lasting.principal.clone()));
        assert!(keys.verify(&short_secret).is_some());
        setup.clock.advance(Duration::from_secs(60));
        assert!(keys.verify(&short_secret).is_none());
        keys.verify(&lasting_secret).unwrap();
        keys.save_last_use().unwrap();
        let (reopened, _) = setup.open();
        assert_eq!(reopened.list()[1].last_used_at, Some(setup.clock.now()));
        assert_eq!(reopened.list().len(), 3);
        assert!(keys.revoke(lasting.principal.key_id).unwrap());
        assert!(!keys.revoke(lasting.principal.key_id).unwrap());
        assert!(keys.verify(&lasting_secret).is_none());
        assert!(setup.open().0.verify(&lasting_secret).is_none());
    }

    #[test]
    fn unsound_requests_and_texts_are_refused() {
        let setup = Setup::new();
        let (keys, _) = setup.open();
        assert!(matches!(keys.create(new(" ", None)), Err(KeyError::Name)));
        assert!(matches!(keys.create(new("x", Some(setup.clock.now()))), Err(KeyError::Expiry)));
        let (_, secret) = keys.create(new("x", None)).unwrap();
        let text = secret.expose();
        assert_eq!(text.len(), 3 + BODY_DIGITS + SUM_DIGITS);
        for at in 0..text.len() {
            let mut altered = text.as_bytes().to_vec();
            altered[at] = if altered[at] == b'0' { b'1' } else { b'0' };
            let altered = String::from_utf8(altered).unwrap();
            assert!(!is_well_formed(&altered) && keys.verify(&Credential::new(altered)).is_none());
        }
        assert!(keys.verify(&Credential::new(new_text())).is_none());
        assert!(!is_well_formed("") && !is_well_formed("pk_é"));
    }

    #[test]
    fn version_one_stays_readable() {
        let setup = Setup::new();
        let hash = ["7"; 32].join(",");
        let fixture =
            format!(r#"{{"v":1,"record":{{"hash":[{hash}],"name":"n","role":"analyst","tier":null,"#,)
                + r#""created_unix_ms":1767225600000,"expires_unix_ms":null,"last_used_unix_ms":null}}"#;
        let mut batch = Batch::default();
        batch.put(TABLE, 9u128.to_be_bytes().to_vec(), fixture.into_bytes());
        setup.store.commit(&batch).unwrap();
        let (keys, path) = setup.open();
        assert_eq!(path, None);
        let [info] = keys.list().try_into().unwrap();
        assert_eq!((info.principal.key_id, info.principal.role), (Ulid(9), Role::Analyst));
    }
}
