//! The keys that the deployment signs with: one ring for tokens, attestations and whatever else it vouches for.
//!
//! In the ring one key is active and signs; those before it verify until their overlap is over, so that what was
//! signed in the last minute of a key counts as long as it should. All that verify are published as a JWK set
//! (RFC 7517, RFC 8037), each named by its thumbprint (RFC 7638), so that who holds the set needs nothing else.
//!
//! Private keys lie in the store, sealed with the node's secret; a copy of the store alone signs nothing. A key
//! that may have leaked is withdrawn: it vanishes from the ring and from the set at once.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Digest;
use sha2::Sha256;

use super::jose;
use super::jose::SigningKey;
use super::jose::TokenFault;
use super::jose::VerifyingKey;
use super::secret::NodeSecret;
use crate::clock::Clock;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The most keys of a ring, those that only verify included.
pub const RING_KEYS_MAX: usize = 32;
/// How often the ring looks whether a key is due.
const LOOK_EVERY: Duration = Duration::from_secs(600);
const PURPOSE: &str = "signing-key";

/// When keys change; a change needs a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigningConfig {
    /// How long a key signs.
    pub rotate_after: Duration,
    /// How long it verifies after that.
    pub overlap: Duration,
}

/// A key of the ring as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    created_at: Timestamp,
    retired_at: Option<Timestamp>,
    /// The private key in PEM, sealed with the node's secret, in base 64.
    sealed: String,
}

impl Record for StoredKey {
    const VERSION: u32 = 1;
}

/// Why the ring failed.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A stored key was sealed by another node secret, or is damaged.
    #[error("a signing key cannot be opened with this node's secret")]
    Sealed,
    /// There are too many keys whose overlap is not over.
    #[error("{RING_KEYS_MAX} signing keys are in their overlap already")]
    TooMany,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A key of the ring.
#[derive(Clone, Debug)]
pub struct RingKey {
    /// Its name: the thumbprint of its public half.
    pub id: String,
    /// Signs.
    pub key: SigningKey,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stopped signing; `None` for the active key.
    pub retired_at: Option<Timestamp>,
}

/// A public key of the ring, as it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// Its name, which signatures carry as `kid` or `keyid`.
    pub id: String,
    /// The 32 bytes of the Ed25519 key in base64url, as `x` of a JWK.
    pub x: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stopped signing; `None` for the active key.
    pub retired_at: Option<Timestamp>,
}

/// The ring.
pub struct KeyRing {
    table: Followed<String, StoredKey>,
    secret: NodeSecret,
    config: SigningConfig,
    /// The active key first, then the others, youngest first.
    held: ArcSwap<Vec<RingKey>>,
    /// What is taken over; held while that goes on.
    staged: Mutex<Vec<RingKey>>,
}

impl Default for SigningConfig {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        Self { rotate_after: day * 90, overlap: day * 30 }
    }
}

impl KeyRing {
    /// Reads the ring of a store, and makes the first key where there is none.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn open(
        store: &Store,
        secret: NodeSecret,
        config: SigningConfig,
        now: Timestamp,
    ) -> Result<Self, RingError> {
        let table: Table<String, StoredKey> = store.table("signing_keys");
        // Each is tried: a secret of another deployment is no reason to make new keys beside the old ones.
        for (id, stored) in table.list(&KeyRange::all(), Order::Ascending, RING_KEYS_MAX)? {
            stored.read(id, &secret)?;
        }
        let ring = Self {
            table: Followed::new(table),
            secret,
            config,
            held: ArcSwap::default(),
            staged: Mutex::default(),
        };
        ring.follow()?;
        ring.replace(
            now,
            |keys| keys.first().is_none_or(|key| key.retired_at.is_some()),
            |key| ring.retired(key, now),
        )?;
        Ok(ring)
    }

    /// Takes over what other nodes changed. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.table.catch_up(|fresh| self.take_over(fresh))
    }

    fn take_over(&self, fresh: Vec<Fresh<String, StoredKey>>) {
        let mut keys = self.staged.lock();
        for one in fresh {
            match one {
                Fresh::Anew => keys.clear(),
                Fresh::Gone { key } => keys.retain(|known| known.id != key),
                Fresh::Put { key, record, .. } => match record.read(key, &self.secret) {
                    Ok(read) => {
                        keys.retain(|known| known.id != read.id);
                        keys.push(read);
                    }
                    Err(error) => tracing::error!(%error, "another node has stored a signing key"),
                },
            }
        }
        // Whoever cannot read any key goes on signing with those it has.
        if !keys.is_empty() {
            self.held.store(Arc::new(ordered(keys.clone())));
        }
    }

    /// Returns the key that signs.
    pub fn active(&self) -> RingKey {
        self.held.load().first().expect("a ring has a key from its opening on").clone()
    }

    /// Returns how long a key verifies after it stopped signing: what it signs should not count for longer.
    pub fn overlap(&self) -> Duration {
        self.config.overlap
    }

    /// Signs claims as a compact JWS that names the active key.
    pub fn sign(&self, claims: &impl Serialize) -> String {
        let active = self.active();
        active.key.sign(claims, Some(&active.id))
    }

    /// Returns the claims of a compact JWS that a key of the ring has signed.
    ///
    /// # Errors
    /// See [`TokenFault`].
    pub fn verify<T: DeserializeOwned>(&self, token: &str, now: Timestamp) -> Result<T, TokenFault> {
        let keys: Vec<VerifyingKey> = self.counting(now).iter().map(|key| key.key.verifying()).collect();
        jose::verify(token, &keys)
    }

    /// Tells whether the key of a name, of those that still count, made a signature over bytes.
    pub fn verifies(&self, key_id: &str, message: &[u8], signature: &[u8], now: Timestamp) -> bool {
        let keys = self.counting(now);
        let named = keys.iter().find(|key| key.id == key_id);
        named.is_some_and(|key| key.key.verifying().verifies(message, signature))
    }

    /// Tells whether what a key signed still counts, for all the ring knows.
    pub fn vouches(&self, key_id: &str, now: Timestamp) -> bool {
        self.held.load().iter().any(|key| key.id == key_id && self.counts(key, now))
    }

    /// Returns the public keys that count, the active one first.
    pub fn public(&self, now: Timestamp) -> Vec<PublicKey> {
        let shown = |key: RingKey| PublicKey {
            x: URL_SAFE_NO_PAD.encode(key.key.public()),
            id: key.id,
            created_at: key.created_at,
            retired_at: key.retired_at,
        };
        self.counting(now).into_iter().map(shown).collect()
    }

    /// Makes a new key the active one; the old one verifies until its overlap is over. Blocks for the disk.
    ///
    /// # Errors
    /// See [`RingError`]; the ring is then as it was.
    pub fn rotate(&self, now: Timestamp) -> Result<String, RingError> {
        let rotated = self.replace(now, |_| true, |key| self.retired(key, now))?;
        Ok(rotated.unwrap_or_default())
    }

    /// Returns a key as it is once another one signs; `None` where it does not even verify any more.
    fn retired(&self, key: RingKey, now: Timestamp) -> Option<RingKey> {
        let retired_at = Some(key.retired_at.unwrap_or(now));
        Some(RingKey { retired_at, ..key }).filter(|key| self.counts(key, now))
    }

    /// Makes a new key the active one and forgets all others at once: what they signed counts no more.
    ///
    /// # Errors
    /// See [`RingError`]; the ring is then as it was.
    pub fn withdraw(&self, now: Timestamp) -> Result<String, RingError> {
        Ok(self.replace(now, |_| true, |_| None)?.unwrap_or_default())
    }

    /// Rotates when a key is due, also by the moment that has surely come, until `shutdown` resolves: an old key that is
    /// dropped does not come back. In: the time, and that moment.
    pub async fn run(
        self: Arc<Self>,
        shutdown: impl Future<Output = ()>,
        (clock, sure): (Arc<dyn Clock>, Arc<dyn Clock>),
    ) {
        tokio::pin!(shutdown);
        loop {
            let (ring, now, come) = (Arc::clone(&self), clock.now(), sure.now());
            let rotate = move || if ring.is_due(come) { ring.rotate_if_due(now) } else { Ok(None) };
            match tokio::task::spawn_blocking(rotate).await {
                Ok(Ok(Some(key_id))) => tracing::info!(key_id, "a new signing key is active"),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::error!(%error, "the signing key could not be rotated"),
                Err(_) => tracing::error!("rotating the signing key panicked"),
            }
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Rotates if the active key has signed for as long as it may; returns the new key's name.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn rotate_if_due(&self, now: Timestamp) -> Result<Option<String>, RingError> {
        // Another node may have done it.
        match self.is_due(now) {
            true => self.replace(now, |keys| self.are_due(keys, now), |key| self.retired(key, now)),
            false => Ok(None),
        }
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.are_due(&self.held.load(), now)
    }

    fn are_due(&self, keys: &[RingKey], now: Timestamp) -> bool {
        let age = keys.first().map(|key| now.duration_since(key.created_at));
        age.and_then(|age| age.try_into().ok()).is_some_and(|age: Duration| age >= self.config.rotate_after)
    }

    fn counting(&self, now: Timestamp) -> Vec<RingKey> {
        self.held.load().iter().filter(|key| self.counts(key, now)).cloned().collect()
    }

    fn counts(&self, key: &RingKey, now: Timestamp) -> bool {
        let ends = |at: Timestamp| at.checked_add(self.config.overlap).unwrap_or(Timestamp::MAX);
        key.retired_at.is_none_or(|at| now < ends(at))
    }

    /// Makes a new key the active one if that is `wanted` of the keys there are; returns its name.
    fn replace(
        &self,
        now: Timestamp,
        wanted: impl Fn(&[RingKey]) -> bool,
        keep: impl Fn(RingKey) -> Option<RingKey>,
    ) -> Result<Option<String>, RingError> {
        let key = SigningKey::generate();
        let id = thumbprint(key.public());
        let fresh = RingKey { id: id.clone(), key, created_at: now, retired_at: None };
        self.table.change(
            |change| self.take_over(change),
            |batch| {
                let known = self.held.load_full();
                if !wanted(&known) {
                    return Ok(None);
                }
                let kept: Vec<RingKey> = known.iter().cloned().filter_map(&keep).collect();
                if kept.len() + 1 > RING_KEYS_MAX {
                    return Err(RingError::TooMany);
                }
                // The new one first: the ring is never without one.
                for key in std::iter::once(&fresh).chain(&kept) {
                    self.table.table().put_in(batch, &key.id, &StoredKey::of(key, &self.secret))?;
                }
                for gone in known.iter().filter(|key| !kept.iter().any(|kept| kept.id == key.id)) {
                    self.table.table().delete_in(batch, &gone.id);
                }
                Ok(Some(id.clone()))
            },
        )
    }
}

impl StoredKey {
    fn of(key: &RingKey, secret: &NodeSecret) -> Self {
        let sealed = secret.seal(PURPOSE, &key.id, key.key.to_pem().as_bytes());
        Self {
            created_at: key.created_at,
            retired_at: key.retired_at,
            sealed: URL_SAFE_NO_PAD.encode(sealed),
        }
    }

    fn read(self, id: String, secret: &NodeSecret) -> Result<RingKey, RingError> {
        let sealed = URL_SAFE_NO_PAD.decode(&self.sealed).map_err(|_| RingError::Sealed)?;
        let pem = secret.unseal(PURPOSE, &id, &sealed).ok_or(RingError::Sealed)?;
        let key = SigningKey::from_pem(&pem).map_err(|_| RingError::Sealed)?;
        Ok(RingKey { id, key, created_at: self.created_at, retired_at: self.retired_at })
    }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing").field("active", &self.active().id).finish_non_exhaustive()
    }
}

/// Returns the active key first, then the others, youngest first.
fn ordered(mut keys: Vec<RingKey>) -> Vec<RingKey> {
    keys.sort_by_key(|key| (key.retired_at.is_some(), std::cmp::Reverse(key.created_at)));
    keys
}

/// Returns the thumbprint of a public key: the hash of its required members in the order of RFC 7638.
fn thumbprint(public: &[u8]) -> String {
    let x = URL_SAFE_NO_PAD.encode(public);
    let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    URL_SAFE_NO_PAD.encode(Sha256::digest(members.as_bytes()))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    fn moment(day: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * day)
    }

    fn open(store: &Store, secret: &NodeSecret, day: i64) -> KeyRing {
        KeyRing::open(store, secret.clone(), SigningConfig::default(), moment(day)).unwrap()
    }

    #[test]
    fn what_an_old_key_signed_counts_until_its_overlap_is_over() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let ring = open(&store, &secret, 0);
        let (first, token) = (ring.active(), ring.sign(&json!({"sub": "a"})));
        assert_eq!(ring.rotate_if_due(moment(89)).unwrap(), None);
        let second = ring.rotate_if_due(moment(90)).unwrap().unwrap();
        assert_eq!(ring.active().id, second);
        // The ring outlives the process.
        let again = open(&store, &secret, 91);
        assert_eq!(again.active().id, second);
        let ids: Vec<String> = again.public(moment(119)).into_iter().map(|key| key.id).collect();
        assert_eq!(ids, [second.as_str(), first.id.as_str()]);
        assert_eq!(again.verify::<Value>(&token, moment(119)), Ok(json!({"sub": "a"})));
        let signature = first.key.sign_bytes(b"bytes");
        assert!(again.verifies(&first.id, b"bytes", &signature, moment(119)));
        assert!(!again.verifies(&second, b"bytes", &signature, moment(119)));
        assert!(!again.verifies(&first.id, b"byte", &signature, moment(119)));
        assert_eq!(again.verify::<Value>(&token, moment(120)), Err(TokenFault::Forged));
        assert_eq!(again.public(moment(120)).len(), 1);
        again.rotate(moment(130)).unwrap();
        assert_eq!(open(&store, &secret, 130).held.load().len(), 2, "the first key is gone from the store");
    }

    #[test]
    fn a_withdrawn_key_counts_no_more() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let ring = open(&store, &secret, 0);
        let token = ring.sign(&json!({}));
        ring.withdraw(moment(1)).unwrap();
        assert_eq!(ring.verify::<Value>(&token, moment(1)), Err(TokenFault::Forged));
        assert_eq!(open(&store, &secret, 1).public(moment(1)).len(), 1);
    }

    #[test]
    fn the_store_alone_signs_nothing() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        open(&store, &secret, 0);
        let other = KeyRing::open(&store, NodeSecret::random(), SigningConfig::default(), moment(0));
        assert!(matches!(other, Err(RingError::Sealed)));
    }

    #[test]
    fn a_key_is_named_by_its_thumbprint() {
        // RFC 8037, appendix A.3.
        let x = URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        assert_eq!(thumbprint(&x), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn a_ring_has_room_for_so_many_keys() {
        let ring = open(&Store::in_memory(), &NodeSecret::random(), 0);
        let made = (0..RING_KEYS_MAX + 5).filter(|_| ring.rotate(moment(1)).is_ok()).count();
        assert_eq!(made, RING_KEYS_MAX - 1);
        assert!(ring.rotate(moment(40)).is_ok());
    }
}
