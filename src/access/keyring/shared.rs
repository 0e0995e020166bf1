//! Keys that the nodes of a deployment share: a row for each name, found by a keyed hash of it.
//!
//! The key of a row is sealed with the deployment's secret, so that the database alone opens no name. A name has one
//! key, whichever node made it: the first one counts. Destroying it deletes the row, and every other node forgets the
//! key as soon as it hears of that. Write-ahead logs and backups of the database keep what was deleted for as long as
//! they are kept: like backups of the key file they have to be shorter-lived than the journal.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::Serialize;

use super::cipher::Key;
use super::file::Index;
use super::file::Slot;
use super::standing::Standing;
use crate::access::secret::NodeSecret;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;

const TABLE: &str = "subject_keys";
const PURPOSE: &str = "subject-key";
const INDEX_PURPOSE: &str = "subject-index";
/// The place that holds how many places were ever taken.
const PLACES: u64 = u64::MAX;

/// A key as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct KeyRecord {
    /// What the name is found by, in base 64.
    index: String,
    /// The key, sealed, in base 64.
    sealed: String,
    /// The name's standing, by its code; none for names from before there were standings.
    #[serde(default)]
    standing: u8,
    /// The day, since 1970, on which the name was last seen, as far as that was told.
    #[serde(default)]
    seen_day: u32,
}

impl Record for KeyRecord {
    const VERSION: u32 = 1;
}

/// The table of keys.
pub(super) struct SharedKeys {
    table: Followed<u64, KeyRecord>,
    secret: NodeSecret,
    /// How many places were ever taken.
    places: AtomicU64,
}

impl SharedKeys {
    pub(super) fn new(store: &Store, secret: NodeSecret) -> Self {
        Self { table: Followed::new(store.table(TABLE)), secret, places: AtomicU64::new(0) }
    }

    /// Returns how many places were ever taken, as far as it is known here.
    pub(super) fn places(&self) -> u64 {
        self.places.load(Ordering::Acquire)
    }

    pub(super) fn index_of(&self, name: &str) -> Index {
        let hash = self.secret.hash(INDEX_PURPOSE, name.as_bytes());
        let mut index = Index::default();
        index.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        index
    }

    /// Shows what other nodes made and destroyed.
    pub(super) fn catch_up(&self, mut apply: impl FnMut(Vec<Fresh<u64, Slot>>)) -> Result<(), StoreError> {
        self.table.catch_up(|fresh| self.show(fresh, &mut apply))
    }

    /// Makes the keys that are `wanted` then at places that nobody ever had: a token of whoever was erased must not seem
    /// to be of somebody else. Returns the standings of whose keys were made.
    pub(super) fn make(
        &self,
        mut apply: impl FnMut(Vec<Fresh<u64, Slot>>),
        wanted: impl Fn() -> Vec<Slot>,
    ) -> Result<Vec<Standing>, StoreError> {
        self.table.change(
            |fresh| self.show(fresh, &mut apply),
            |batch| {
                let slots = wanted();
                if slots.is_empty() {
                    return Ok(Vec::new());
                }
                let first = self.places();
                for (place, slot) in (first..).zip(&slots) {
                    self.table.table().put_in(batch, &place, &self.record(place, slot))?;
                }
                // A node that begins later has to know that the places were taken, whoever is forgotten until then.
                let index = (first + slots.len() as u64).to_string();
                let places = KeyRecord { index, sealed: String::new(), standing: 0, seen_day: 0 };
                self.table.table().put_in(batch, &PLACES, &places)?;
                Ok(slots.into_iter().map(|slot| slot.standing).collect())
            },
        )
    }

    /// Destroys the key at the place that `find` tells; tells whether there was one.
    pub(super) fn destroy(
        &self,
        mut apply: impl FnMut(Vec<Fresh<u64, Slot>>),
        find: impl Fn() -> Option<u32>,
    ) -> Result<bool, StoreError> {
        self.table.change(
            |fresh| self.show(fresh, &mut apply),
            |batch| {
                let Some(place) = find() else { return Ok(false) };
                self.table.table().delete_in(batch, &u64::from(place));
                Ok(true)
            },
        )
    }

    /// Tells the other nodes what is known of the names in some slots, as far as their keys are still there then.
    pub(super) fn tell(
        &self,
        mut apply: impl FnMut(Vec<Fresh<u64, Slot>>),
        slots: &[u32],
        current: impl Fn(u32) -> Option<Slot>,
    ) -> Result<(), StoreError> {
        self.table.change(
            |fresh| self.show(fresh, &mut apply),
            |batch| {
                for number in slots {
                    let place = u64::from(*number);
                    if let Some(slot) = current(*number) {
                        self.table.table().put_in(batch, &place, &self.record(place, &slot))?;
                    }
                }
                Ok(())
            },
        )
    }

    /// Destroys the keys in the slots that `find` tells; returns how many.
    pub(super) fn destroy_all(
        &self,
        mut apply: impl FnMut(Vec<Fresh<u64, Slot>>),
        find: impl Fn() -> Vec<u32>,
    ) -> Result<usize, StoreError> {
        self.table.change(
            |fresh| self.show(fresh, &mut apply),
            |batch| {
                let slots = find();
                slots.iter().for_each(|slot| self.table.table().delete_in(batch, &u64::from(*slot)));
                Ok(slots.len())
            },
        )
    }

    fn record(&self, place: u64, slot: &Slot) -> KeyRecord {
        KeyRecord {
            index: URL_SAFE_NO_PAD.encode(slot.index),
            sealed: URL_SAFE_NO_PAD.encode(self.secret.seal(PURPOSE, &place.to_string(), &slot.key.0)),
            standing: slot.standing.code(),
            seen_day: slot.seen_day,
        }
    }

    fn show(&self, fresh: Vec<Fresh<u64, KeyRecord>>, apply: &mut impl FnMut(Vec<Fresh<u64, Slot>>)) {
        let places = fresh.iter().filter_map(places_of).max();
        let mut unopened = 0u64;
        apply(fresh.into_iter().filter_map(|one| self.opened(one, &mut unopened)).collect());
        if unopened > 0 {
            tracing::error!(unopened, "keys of subjects cannot be opened with this deployment's secret");
        }
        // Last: a place that is known to be taken, and has no key here, is one whose key was destroyed.
        self.places.fetch_max(places.unwrap_or(0), Ordering::AcqRel);
    }

    /// Returns a change as its owner knows it; `None` where it is not of a key, or, which is counted, not of ours.
    fn opened(&self, fresh: Fresh<u64, KeyRecord>, unopened: &mut u64) -> Option<Fresh<u64, Slot>> {
        match fresh {
            Fresh::Anew => Some(Fresh::Anew),
            Fresh::Gone { key } => Some(Fresh::Gone { key }),
            Fresh::Put { key: PLACES, .. } => None,
            Fresh::Put { key, record, is_own } => {
                let slot = self.open(key, &record);
                *unopened += u64::from(slot.is_none());
                slot.map(|record| Fresh::Put { key, record, is_own })
            }
        }
    }

    fn open(&self, place: u64, record: &KeyRecord) -> Option<Slot> {
        let index = URL_SAFE_NO_PAD.decode(&record.index).ok()?.try_into().ok()?;
        let sealed = URL_SAFE_NO_PAD.decode(&record.sealed).ok()?;
        let key = self.secret.unseal(PURPOSE, &place.to_string(), &sealed)?;
        let standing = Standing::of_code(record.standing);
        Some(Slot { index, key: Key(key.try_into().ok()?), standing, seen_day: record.seen_day })
    }
}

/// Returns how many places were ever taken, where a change tells.
fn places_of(fresh: &Fresh<u64, KeyRecord>) -> Option<u64> {
    match fresh {
        Fresh::Put { key: PLACES, record, .. } => record.index.parse().ok(),
        Fresh::Anew | Fresh::Put { .. } | Fresh::Gone { .. } => None,
    }
}
