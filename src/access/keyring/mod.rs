//! A key for each person or thing that records are about, so that a record which can never be changed can still
//! forget whom it was about: records hold names sealed under these keys, and erasing somebody destroys the key.
//!
//! In: names. Out: *tokens*, texts that stand for a name in journals, stores and indexes, and from which the name
//! is read back as long as its key exists. The same name has the same token, so that a token can be looked for;
//! after its key was destroyed nothing ties the token to the name, and a name that comes back gets another one.
//!
//! The keys lie in one small file (see [`file`]): a name is found there by a keyed hash, never by itself.
//! [`Keyring::destroy`] overwrites the key where it lies and comes back after `fdatasync`.
//!
//! Where nodes share a database the keys lie there instead (see [`shared`]), sealed with the deployment's secret. What is
//! new gets its key by a transaction then: whoever serves traffic takes what is [at hand](Keyring::at_hand).
//!
//! There are so many places and no more, in shares by how well a name is known (see [`standing`]): whoever makes up
//! names takes none from those who are known.
//!
//! What it does not promise: that a disk or file system which writes changed blocks elsewhere (flash translation,
//! btrfs, snapshots, backups) forgets the old block. There the state directory belongs on an encrypted volume, and
//! backups of the key file have to be shorter-lived than those of the journal.

mod aging;
mod cipher;
mod file;
mod known;
mod making;
pub mod sealed;
mod shared;
mod standing;
#[cfg(test)]
mod standing_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use parking_lot::RwLock;

pub use self::aging::NameCount;
use self::cipher::Key;
use self::file::Index;
use self::file::KeyFile;
use self::file::Slot;
use self::known::Known;
pub use self::making::stand_in;
use self::making::token;
use self::shared::SharedKeys;
pub use self::standing::Standing;
use crate::access::secret::NodeSecret;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::store::Fresh;
use crate::store::Store;
use crate::store::StoreError;

/// What a name is shown as whose key was destroyed.
pub const ERASED: &str = "[erased]";
/// What a name is shown as whose key is not known on this node, and could not be asked for.
pub const UNREAD: &str = "[unread]";
/// What a name is shown as for which there was no place: it cannot be read back.
pub const UNLISTED: &str = "[unlisted]";

/// The token of every name for which there was no room.
const UNLISTED_TOKEN: &str = "~";
/// Names whose tokens are kept at hand.
const CACHED_MAX: usize = 1 << 16;
const SLOT_BYTES: usize = 4;
const SECONDS_PER_DAY: i64 = 86_400;

/// Why the key file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The disk failed.
    #[error("the file of subject keys could not be read or made")]
    Disk(#[from] io::Error),
    /// Another process uses it.
    #[error("the file of subject keys is in use by another process")]
    InUse,
    /// The database that holds the keys failed.
    #[error("the keys of subjects cannot be read")]
    Store(#[from] StoreError),
    /// It is not a key file, or its beginning is damaged: restore it.
    #[error("the file of subject keys is damaged")]
    Damaged,
}

/// A name's key is not known on this node, and the store could not be asked for it: whether it was destroyed, nobody
/// here can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key of a name is not known here yet")]
pub struct Unread;

/// Every key.
pub struct Keyring {
    home: Home,
    clock: Arc<dyn Clock>,
    known: RwLock<Known>,
    /// Tokens of names that were sealed lately.
    cache: RwLock<HashMap<Box<str>, Cached>>,
    /// Held while slots are written.
    writing: Mutex<()>,
    is_dirty: AtomicBool,
    counts: Counts,
    /// Whether the last name that was new got no key because the store failed.
    was_away: AtomicBool,
}

/// Where keys lie.
enum Home {
    File(KeyFile),
    Shared(SharedKeys),
}

/// A token at hand, and what was noted of its name.
struct Cached {
    token: Arc<str>,
    standing: Standing,
    day: u32,
}

/// What is counted since it was last asked for.
#[derive(Default)]
struct Counts {
    unlisted: [AtomicU64; Standing::ALL.len()],
    aged_out: AtomicU64,
    was_full: [AtomicBool; Standing::ALL.len()],
}

impl Keyring {
    /// Opens the key file, or makes it (mode 0600). Blocks.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn open(path: &Path) -> Result<Self, KeyringError> {
        let (file, slots) = KeyFile::open(path)?;
        let known = Known::of_slots(slots).ok_or(KeyringError::Damaged)?;
        Ok(Self::of(Home::File(file), known))
    }

    /// Tells whether a key file could be opened, beside whoever has it; one that is not there could. Blocks.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn look(path: &Path) -> Result<(), KeyringError> {
        KeyFile::look(path)
    }

    /// Reads the keys that the nodes of a deployment share. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn shared(store: &Store, secret: NodeSecret) -> Result<Self, KeyringError> {
        let keyring = Self::of(Home::Shared(SharedKeys::new(store, secret)), Known::default());
        keyring.follow()?;
        Ok(keyring)
    }

    fn of(home: Home, known: Known) -> Self {
        Self {
            home,
            clock: Arc::new(SystemClock),
            known: RwLock::new(known),
            cache: RwLock::default(),
            writing: Mutex::new(()),
            is_dirty: AtomicBool::new(false),
            counts: Counts::default(),
            was_away: AtomicBool::new(false),
        }
    }

    /// Returns the same keys, with the days of another clock.
    pub fn by(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Takes over the keys that other nodes made or destroyed. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        match &self.home {
            Home::File(_) => Ok(()),
            Home::Shared(keys) => keys.catch_up(|fresh| self.take_over(fresh)),
        }
    }

    fn take_over(&self, fresh: Vec<Fresh<u64, Slot>>) {
        let mut known = self.known.write();
        for one in fresh {
            match one {
                Fresh::Anew => {
                    *known = Known::default();
                    self.cache.write().clear();
                }
                Fresh::Put { key, record, .. } => {
                    if let Ok(number) = u32::try_from(key) {
                        known.put(number, record);
                    }
                }
                Fresh::Gone { key } => {
                    if let Ok(number) = u32::try_from(key) {
                        known.forget(number);
                    }
                    // Whose it was nobody knows any more.
                    self.cache.write().clear();
                }
            }
        }
    }

    /// Returns what a name is found by, also once its key was destroyed.
    pub fn index_of(&self, name: &str) -> Index {
        match &self.home {
            Home::File(file) => file.index_of(name),
            Home::Shared(keys) => keys.index_of(name),
        }
    }

    /// Returns the token of a name, and makes its key where there is none. What is sealed under a new key may be
    /// stored once [`Keyring::flush`] has come back. For journals and figures: the name ages out with them.
    pub fn seal(&self, name: &str) -> Arc<str> {
        self.seal_as(name, Standing::of(name))
    }

    /// Returns the token of a name as [`Keyring::seal`] does, for a record that is kept: the name never ages out.
    pub fn keep(&self, name: &str) -> Arc<str> {
        self.seal_as(name, Standing::Known)
    }

    /// Returns the token of a name as [`Keyring::keep`] does; `None` where the name gets no key.
    pub fn listed(&self, name: &str) -> Option<String> {
        self.listed_as(name, Standing::Known)
    }

    /// Returns the token of a name as [`Keyring::seal_as`] does; `None` where the name gets no key.
    pub fn listed_as(&self, name: &str, standing: Standing) -> Option<String> {
        let token = self.seal_as(name, standing);
        (token.as_ref() != UNLISTED_TOKEN).then(|| token.as_ref().to_owned())
    }

    /// Returns the token of a name as [`Keyring::at_hand`] does; `None` where the name has no key then, and gets none at once.
    pub fn listed_at_hand(&self, name: &str, standing: Standing) -> Option<String> {
        let token = self.at_hand(name, standing).unwrap_or_else(|| self.unlisted(standing));
        (token.as_ref() != UNLISTED_TOKEN).then(|| token.as_ref().to_owned())
    }

    /// Returns the token of a name that has a key.
    pub fn known(&self, name: &str) -> Option<Arc<str>> {
        if let Some(cached) = self.cache.read().get(name) {
            return Some(Arc::clone(&cached.token));
        }
        let (slot, key) = self.known.read().find(&self.index_of(name))?;
        Some(token(slot, &key, name).into())
    }

    /// Returns a secret of a name for some purpose, and how well it is known; `None` where it has no key. The secret is
    /// gone with the key.
    pub fn secret_of(&self, name: &str, purpose: &str) -> Option<([u8; 32], Standing)> {
        let known = self.known.read();
        let (number, key) = known.find(&self.index_of(name))?;
        Some((cipher::derived(&key, purpose), known.slot(number)?.standing))
    }

    /// Returns the name that a token stands for; `None` once its key was destroyed.
    ///
    /// # Errors
    /// Whether it was, cannot be told at the moment.
    pub fn read_name(&self, token: &str) -> Result<Option<String>, Unread> {
        self.read(token, cipher::open_name)
    }

    /// Returns the name that a token stands for; `None` where it cannot be read.
    pub fn name_of(&self, token: &str) -> Option<String> {
        self.read_name(token).ok().flatten()
    }

    /// Returns the name that a token stands for, or what is shown in its place.
    pub fn shown(&self, token: &str) -> String {
        self.read_shown(token).unwrap_or_else(|Unread| UNREAD.to_owned())
    }

    /// Returns the name that a token stands for, or what is shown where it was erased.
    fn read_shown(&self, token: &str) -> Result<String, Unread> {
        if token == UNLISTED_TOKEN {
            return Ok(UNLISTED.to_owned());
        }
        Ok(self.read_name(token)?.unwrap_or_else(|| ERASED.to_owned()))
    }

    /// Opens what was sealed under the key of a name.
    fn read(
        &self,
        sealed: &str,
        open: impl Fn(&Key, &[u8]) -> Option<String>,
    ) -> Result<Option<String>, Unread> {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(sealed) else { return Ok(None) };
        let Some((slot, sealed)) = bytes.split_first_chunk::<SLOT_BYTES>() else { return Ok(None) };
        Ok(self.key_in(*slot)?.and_then(|key| open(&key, sealed)))
    }

    /// Seals a text that is about a name, to be read back with [`Keyring::unwrap_text`] as long as the name's
    /// key exists. Where there is no room for the name the text is kept from nobody: it is left out.
    pub fn wrap_text(&self, name: &str, text: &str) -> String {
        self.wrap(name, text).unwrap_or_else(|| UNLISTED_TOKEN.to_owned())
    }

    /// Seals a text as [`Keyring::wrap_text`] does; `None` where the name gets no key.
    fn wrap(&self, name: &str, text: &str) -> Option<String> {
        self.keep(name);
        let (slot, key) = self.known.read().find(&self.index_of(name))?;
        let mut bytes = slot.to_le_bytes().to_vec();
        bytes.extend_from_slice(&cipher::seal_text(&key, text));
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Seals a name under its own key, and that under the key of whom it is kept with; `None` where one of them gets
    /// no key.
    fn bind(&self, entity: &str, name: &str) -> Option<String> {
        self.wrap(entity, &self.listed(name)?)
    }

    /// Returns what [`Keyring::wrap_text`] sealed, or what is shown in its place.
    pub fn unwrap_text(&self, wrapped: &str) -> String {
        self.read_text(wrapped).unwrap_or_else(|Unread| UNREAD.to_owned())
    }

    /// Returns what [`Keyring::wrap_text`] sealed, or what is shown where it was erased.
    fn read_text(&self, wrapped: &str) -> Result<String, Unread> {
        if wrapped == UNLISTED_TOKEN {
            return Ok(UNLISTED.to_owned());
        }
        Ok(self.read(wrapped, cipher::open_text)?.unwrap_or_else(|| ERASED.to_owned()))
    }

    /// Comes back once every key that was made before the call would survive a power cut. Cheap where none was.
    ///
    /// # Errors
    /// When the disk fails; the keys are tried again with the next call.
    pub fn flush(&self) -> io::Result<()> {
        let Home::File(file) = &self.home else { return Ok(()) };
        if !self.is_dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let _writing = self.writing.lock();
        let slots = self.known.write().take_dirty();
        let written = slots.iter().try_for_each(|(number, slot)| file.write(*number, Some(slot)));
        let outcome = written.and_then(|()| file.sync());
        let mut known = self.known.write();
        if outcome.is_err() {
            known.note_dirty(slots.iter().map(|(number, slot)| (*number, slot.index)));
        }
        // Only now: whoever finds nothing to do has to find it done.
        self.is_dirty.store(known.is_dirty(), Ordering::Release);
        outcome
    }

    /// Destroys the key of a name; tells whether there was one. When it comes back the key's bytes are
    /// overwritten where they lay, and the disk has confirmed it.
    ///
    /// # Errors
    /// When the disk fails; whether the key is still there is only known once the call was repeated.
    pub fn destroy(&self, name: &str) -> io::Result<bool> {
        let index = self.index_of(name);
        let file = match &self.home {
            Home::File(file) => file,
            Home::Shared(keys) => {
                let find = || self.known.read().find(&index).map(|(slot, _)| slot);
                let gone = keys.destroy(|fresh| self.take_over(fresh), find);
                return gone.map_err(io::Error::other);
            }
        };
        let _writing = self.writing.lock();
        let Some((slot, _)) = self.known.read().find(&index) else { return Ok(false) };
        file.write(slot, None)?;
        file.sync()?;
        let mut known = self.known.write();
        known.forget(slot);
        known.free([slot]);
        self.cache.write().remove(name);
        Ok(true)
    }

    /// Returns how many names have keys.
    pub fn len(&self) -> usize {
        self.known.read().len()
    }

    /// Tells whether no name has a key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key in a slot; `None` where it was destroyed, or never was.
    fn key_in(&self, slot: [u8; SLOT_BYTES]) -> Result<Option<Key>, Unread> {
        let slot = u32::from_le_bytes(slot);
        if let Home::Shared(keys) = &self.home
            && u64::from(slot) >= keys.places()
            && let Err(error) = self.follow()
        {
            // Another node may have made it since.
            tracing::warn!(%error, "a name cannot be read: its key is not known here yet");
            return Err(Unread);
        }
        Ok(self.known.read().slot(slot).map(|slot| slot.key.clone()))
    }

    /// Returns the day, since 1970.
    fn today(&self) -> u32 {
        day_of(self.clock.now())
    }
}

fn day_of(at: Timestamp) -> u32 {
    u32::try_from(at.as_second().div_euclid(SECONDS_PER_DAY)).unwrap_or_default()
}
