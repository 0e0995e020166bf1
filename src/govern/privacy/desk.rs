//! The one desk at which holds and erasures take their places.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::erasure::EraseError;
use super::erasure::Erased;
use super::erasure::NOTES;
use super::erasure::Note;
use super::hold::HOLDS;
use super::hold::Hold;
use super::hold::HoldId;
use super::hold::HoldRecord;
use super::hold::NewHold;
use super::provider::DataProvider;
use super::provider::Facts;
use super::provider::ProviderError;
use crate::clock::Clock;
use crate::govern::audit::AuditLog;
use crate::govern::keyring::Keyring;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The most holds there may be, released ones included.
pub const HOLDS_MAX: usize = 100_000;
/// The most erasures that may be under way at once.
const NOTES_MAX: usize = 10_000;
/// How long it is known that an entity was erased, for holds that were asked for before it was.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Holds, exports and erasures. All calls may block on the disk.
pub struct Privacy {
    holds: Table<u64, HoldRecord>,
    notes: Table<String, Note>,
    keyring: Arc<Keyring>,
    log: AuditLog,
    clock: Arc<dyn Clock>,
    providers: Vec<Box<dyn DataProvider>>,
    desk: Mutex<Desk>,
}

/// Who has taken which place.
#[derive(Default)]
struct Desk {
    /// The holds in force, by entity.
    held: HashMap<String, HashSet<u64>>,
    erasing: HashSet<String>,
    /// When entities were erased lately, on the monotonic clock.
    erased: HashMap<String, Duration>,
    last_hold: u64,
}

/// When a request came, so that it can be told whether it ran beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival(pub Duration);

/// Why a hold was not taken.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// A field is empty or too long.
    #[error("{field}: expected a text of 1 to {bytes_max} bytes")]
    Field {
        /// The field.
        field: &'static str,
        /// The most bytes it may have.
        bytes_max: usize,
    },
    /// The entity is being erased, or was since the hold was asked for: there is nothing left to be held.
    #[error("the entity is being erased: the hold came too late")]
    Erased,
    /// There are too many.
    #[error("there are {HOLDS_MAX} legal holds already")]
    TooMany,
    /// The hold could not be made safe.
    #[error(transparent)]
    Privacy(#[from] PrivacyError),
}

/// Why holds or records could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PrivacyError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys of names could not be made safe.
    #[error("the keys of names could not be written")]
    Keys(#[from] std::io::Error),
    /// No further name gets a key.
    #[error("there is no room for the name of another entity")]
    Full,
    /// A provider failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl Privacy {
    /// Opens what is stored; the erasures that were cut short are waiting for [`Privacy::resume`].
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(
        store: &Store,
        keyring: Arc<Keyring>,
        log: AuditLog,
        clock: Arc<dyn Clock>,
        providers: Vec<Box<dyn DataProvider>>,
    ) -> Result<Self, StoreError> {
        let holds: Table<u64, HoldRecord> = store.table(HOLDS);
        let mut desk = Desk::default();
        for (number, record) in holds.list(&KeyRange::all(), Order::Ascending, HOLDS_MAX)? {
            desk.last_hold = desk.last_hold.max(number);
            if let Some(entity) = record.held(&keyring) {
                desk.held.entry(entity).or_default().insert(number);
            }
        }
        let notes = store.table(NOTES);
        let privacy = Self { holds, notes, keyring, log, clock, providers, desk: Mutex::new(desk) };
        privacy.tell_log(&privacy.desk.lock());
        Ok(privacy)
    }

    /// Returns the moment of a request that begins now.
    pub fn arrival(&self) -> Arrival {
        Arrival(self.clock.monotonic())
    }

    /// Takes a hold. It is in force, and survives a power cut, once the call is back.
    ///
    /// # Errors
    /// See [`HoldError`].
    pub fn hold(&self, told: NewHold, arrival: Arrival) -> Result<Hold, HoldError> {
        if let Some((field, bytes_max)) = told.odd_field() {
            return Err(HoldError::Field { field, bytes_max });
        }
        let mut desk = self.desk.lock();
        if desk.erasing.contains(&told.entity_id)
            || desk.erased.get(&told.entity_id).is_some_and(|at| *at > arrival.0)
        {
            return Err(HoldError::Erased);
        }
        let number = desk.last_hold + 1;
        if number > HOLDS_MAX as u64 {
            return Err(HoldError::TooMany);
        }
        let hold = Hold { id: HoldId(number), told, created_at: self.clock.now(), released_at: None };
        self.store_hold(&hold)?;
        desk.last_hold = number;
        desk.held.entry(hold.told.entity_id.clone()).or_default().insert(number);
        self.tell_log(&desk);
        Ok(hold)
    }

    fn store_hold(&self, hold: &Hold) -> Result<(), PrivacyError> {
        let record = HoldRecord::seal(hold, &self.keyring);
        if record.held(&self.keyring).is_none() {
            return Err(PrivacyError::Full);
        }
        self.keyring.flush()?;
        Ok(self.holds.put_durable(&hold.id.0, &record)?)
    }

    /// Returns every hold, oldest first, released ones included.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn holds(&self) -> Result<Vec<Hold>, PrivacyError> {
        let records = self.holds.list(&KeyRange::all(), Order::Ascending, HOLDS_MAX)?;
        Ok(records.into_iter().map(|(number, record)| record.open(HoldId(number), &self.keyring)).collect())
    }

    /// Returns a hold.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn hold_of(&self, id: HoldId) -> Result<Option<Hold>, PrivacyError> {
        Ok(self.holds.get(&id.0)?.map(|record| record.open(id, &self.keyring)))
    }

    /// Releases a hold, unless it was before; returns it, and whether that changed it. `None`: there is none.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn release(&self, id: HoldId) -> Result<Option<(Hold, bool)>, PrivacyError> {
        let mut desk = self.desk.lock();
        let Some(record) = self.holds.get(&id.0)? else { return Ok(None) };
        let was = record.open(id, &self.keyring);
        if was.released_at.is_some() {
            return Ok(Some((was, false)));
        }
        let record = record.released(self.clock.now());
        self.holds.put_durable(&id.0, &record)?;
        if let Some(holds) = desk.held.get_mut(&was.told.entity_id) {
            holds.remove(&id.0);
        }
        desk.held.retain(|_, holds| !holds.is_empty());
        self.tell_log(&desk);
        Ok(Some((record.open(id, &self.keyring), true)))
    }

    /// Tells whether a hold on an entity is in force.
    pub fn is_held(&self, entity: &str) -> bool {
        self.desk.lock().held.contains_key(entity)
    }

    /// Returns what each provider knows of an entity; those that know nothing are left out.
    ///
    /// # Errors
    /// When one of them cannot read its records.
    pub fn export(&self, entity: &str) -> Result<BTreeMap<&'static str, Facts>, PrivacyError> {
        let mut found = BTreeMap::new();
        for provider in &self.providers {
            if let Some(facts) = provider.export(entity)? {
                found.insert(provider.name(), facts);
            }
        }
        Ok(found)
    }

    /// Erases an entity everywhere. Once the call is back nothing ties what is left to it.
    ///
    /// # Errors
    /// See [`EraseError`].
    pub fn erase(&self, entity: &str) -> Result<Erased, EraseError> {
        let note = self.begin(entity)?;
        let outcome = self.forget(entity);
        let mut desk = self.desk.lock();
        let (now, monotonic) = (self.clock.now(), self.clock.monotonic());
        desk.erasing.remove(entity);
        match outcome {
            Ok(affected) => {
                desk.erased.retain(|_, at| monotonic.saturating_sub(*at) < REMEMBERED);
                desk.erased.insert(entity.to_owned(), monotonic);
                Ok(Erased { note, erased_at: now, affected: Some(affected) })
            }
            Err(error) => {
                self.notes.delete(&note)?;
                Err(error)
            }
        }
    }

    /// Lets go of the note of an erasure, once it is recorded.
    ///
    /// # Errors
    /// When the store fails; the erasure is recorded again at the next start then.
    pub fn settle(&self, erased: &Erased) -> Result<(), StoreError> {
        self.notes.delete(&erased.note)
    }

    /// Finishes the erasures that were cut short by the end of the last process; each is still to be recorded.
    ///
    /// # Errors
    /// See [`EraseError`].
    pub fn resume(&self) -> Result<Vec<Erased>, EraseError> {
        let mut finished = Vec::new();
        for (note, _) in self.notes.list(&KeyRange::all(), Order::Ascending, NOTES_MAX)? {
            if let Some(entity) = self.keyring.name_of(&note) {
                self.forget(&entity)?;
            }
            finished.push(Erased { note, erased_at: self.clock.now(), affected: None });
        }
        Ok(finished)
    }

    /// Takes the place of an erasure and leaves its note.
    fn begin(&self, entity: &str) -> Result<String, EraseError> {
        let mut desk = self.desk.lock();
        if desk.held.contains_key(entity) {
            return Err(EraseError::Held);
        }
        if desk.erasing.contains(entity) {
            return Err(EraseError::UnderWay);
        }
        let note = self.keyring.seal(entity).as_ref().to_owned();
        self.keyring.flush()?;
        self.notes.put_durable(&note, &Note { begun_at: self.clock.now() })?;
        desk.erasing.insert(entity.to_owned());
        Ok(note)
    }

    /// Lets every provider forget an entity, then destroys its key.
    fn forget(&self, entity: &str) -> Result<BTreeMap<&'static str, u64>, EraseError> {
        let mut affected = BTreeMap::new();
        for provider in &self.providers {
            let count = provider.erase(entity)?;
            if count > 0 {
                affected.insert(provider.name(), count);
            }
        }
        self.keyring.destroy(entity)?;
        Ok(affected)
    }

    /// Tells the log whose entries are not to be dropped.
    fn tell_log(&self, desk: &Desk) {
        self.log.keep(desk.held.keys().cloned().collect());
    }
}
