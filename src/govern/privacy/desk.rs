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
use super::subject::Subject;
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
    /// The holds in force, by every name of their entities.
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
            desk.hold(number, record.held(&keyring));
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
        let Subject { names, .. } = Subject::of(&told.entity_id, &self.providers);
        if names.iter().any(|name| desk.is_too_late(name, arrival)) {
            return Err(HoldError::Erased);
        }
        let number = desk.last_hold + 1;
        if number > HOLDS_MAX as u64 {
            return Err(HoldError::TooMany);
        }
        let hold = Hold { id: HoldId(number), told, created_at: self.clock.now(), released_at: None };
        self.store_hold(&hold, &names)?;
        desk.last_hold = number;
        desk.hold(number, names);
        self.tell_log(&desk);
        Ok(hold)
    }

    fn store_hold(&self, hold: &Hold, names: &[String]) -> Result<(), PrivacyError> {
        let record = HoldRecord::seal(hold, names, &self.keyring);
        if record.held(&self.keyring).len() < names.len() {
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
        desk.release(id.0);
        self.tell_log(&desk);
        Ok(Some((record.open(id, &self.keyring), true)))
    }

    /// Tells whether a hold on an entity is in force, whichever of its names the hold has and it is asked by.
    pub fn is_held(&self, entity: &str) -> bool {
        let desk = self.desk.lock();
        Subject::of(entity, &self.providers).goes_by(|name| desk.held.contains_key(name))
    }

    /// Returns what each provider knows of an entity; those that know nothing are left out.
    ///
    /// # Errors
    /// When one of them cannot read its records.
    pub fn export(&self, entity: &str) -> Result<BTreeMap<&'static str, Facts>, PrivacyError> {
        let mut found = BTreeMap::new();
        let Subject { names, .. } = Subject::of(entity, &self.providers);
        for provider in &self.providers {
            if let Some(facts) = provider.export(&names)? {
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
        let (note, names) = self.begin(entity)?;
        let outcome = self.forget(&names);
        let mut desk = self.desk.lock();
        let (now, monotonic) = (self.clock.now(), self.clock.monotonic());
        desk.erasing.retain(|name| !names.contains(name));
        match outcome {
            Ok(affected) => {
                desk.erased.retain(|_, at| monotonic.saturating_sub(*at) < REMEMBERED);
                desk.erased.extend(names.into_iter().map(|name| (name, monotonic)));
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
        for (note, Note { also, .. }) in self.notes.list(&KeyRange::all(), Order::Ascending, NOTES_MAX)? {
            let tokens = std::iter::once(&note).chain(&also);
            let names: Vec<String> = tokens.filter_map(|token| self.keyring.name_of(token)).collect();
            if !names.is_empty() {
                self.forget(&names)?;
            }
            finished.push(Erased { note, erased_at: self.clock.now(), affected: None });
        }
        Ok(finished)
    }

    /// Takes the place of an erasure and leaves its note; returns that and the entity's names.
    fn begin(&self, entity: &str) -> Result<(String, Vec<String>), EraseError> {
        let mut desk = self.desk.lock();
        let subject = Subject::of(entity, &self.providers);
        if subject.goes_by(|name| desk.held.contains_key(name)) {
            return Err(EraseError::Held);
        }
        let names = subject.names;
        if names.iter().any(|name| desk.erasing.contains(name)) {
            return Err(EraseError::UnderWay);
        }
        let mut also: Vec<String> =
            names.iter().map(|name| self.keyring.seal(name).as_ref().to_owned()).collect();
        let note = also.remove(0);
        self.keyring.flush()?;
        self.notes.put_durable(&note, &Note { begun_at: self.clock.now(), also })?;
        desk.erasing.extend(names.iter().cloned());
        Ok((note, names))
    }

    /// Lets every provider forget an entity, then destroys the keys of its names.
    fn forget(&self, names: &[String]) -> Result<BTreeMap<&'static str, u64>, EraseError> {
        let mut affected = BTreeMap::new();
        for provider in &self.providers {
            let count = provider.erase(names)?;
            if count > 0 {
                affected.insert(provider.name(), count);
            }
        }
        for name in names {
            self.keyring.destroy(name)?;
        }
        Ok(affected)
    }

    /// Tells the log whose entries are not to be dropped.
    fn tell_log(&self, desk: &Desk) {
        self.log.keep(desk.held.keys().cloned().collect());
    }
}

impl Desk {
    fn hold(&mut self, number: u64, names: Vec<String>) {
        for name in names {
            self.held.entry(name).or_default().insert(number);
        }
    }

    fn release(&mut self, number: u64) {
        self.held.retain(|_, holds| {
            holds.remove(&number);
            !holds.is_empty()
        });
    }

    /// Tells whether somebody is being erased, or was since a hold was asked for.
    fn is_too_late(&self, name: &str, arrival: Arrival) -> bool {
        self.erasing.contains(name) || self.erased.get(name).is_some_and(|at| *at > arrival.0)
    }
}
