//! The one desk at which holds and erasures take their places.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::erasure::EraseError;
use super::erasure::Erased;
use super::erasure::MARKS;
use super::erasure::Mark;
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
use crate::store::Batch;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Store;
use crate::store::StoreError;

/// The most holds there may be, released ones included.
pub const HOLDS_MAX: usize = 100_000;
/// The most erasures that may be under way at once.
const NOTES_MAX: usize = 10_000;
/// How long it is known that an entity was erased, for holds that were asked for before it was.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Holds, exports and erasures. All calls may block on the disk.
pub struct Privacy {
    holds: Followed<u64, HoldRecord>,
    notes: Followed<String, Note>,
    marks: Followed<String, Mark>,
    node: String,
    keyring: Arc<Keyring>,
    log: AuditLog,
    clock: Arc<dyn Clock>,
    providers: Vec<Box<dyn DataProvider>>,
    desk: Mutex<Desk>,
    /// Held while a hold or an erasure takes its place: each looks at the table of the other.
    turn: Mutex<()>,
}

/// Who has taken which place.
#[derive(Default)]
struct Desk {
    /// The holds in force, by entity.
    held: HashMap<String, HashSet<u64>>,
    /// Those whose names could not be read, because the keys were not known here.
    unread: HashMap<u64, HoldRecord>,
    /// The erasures under way, by their notes' tokens, with their entities and the nodes that erase.
    erasing: HashMap<String, (String, String)>,
    /// When it became known that entities were erased lately, by what their names are found by, on the monotonic
    /// clock.
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

impl From<StoreError> for HoldError {
    fn from(error: StoreError) -> Self {
        Self::Privacy(error.into())
    }
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
        (store, node): (&Store, &str),
        keyring: Arc<Keyring>,
        log: AuditLog,
        clock: Arc<dyn Clock>,
        providers: Vec<Box<dyn DataProvider>>,
    ) -> Result<Self, StoreError> {
        let privacy = Self {
            holds: Followed::new(store.table(HOLDS)),
            notes: Followed::new(store.table(NOTES)),
            marks: Followed::new(store.table(MARKS)),
            node: node.to_owned(),
            keyring,
            log,
            clock,
            providers,
            desk: Mutex::default(),
            turn: Mutex::new(()),
        };
        privacy.follow()?;
        Ok(privacy)
    }

    /// Takes over the holds and erasures of other nodes. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.marks.catch_up(|fresh| self.take_over_mark(fresh))?;
        self.notes.catch_up(|fresh| self.take_over_note(fresh))?;
        self.holds.catch_up(|fresh| self.take_over_hold(fresh))
    }

    fn take_over_hold(&self, fresh: Fresh<u64, HoldRecord>) {
        let mut desk = self.desk.lock();
        match fresh {
            Fresh::Anew => desk.held.clear(),
            Fresh::Gone { key } => desk.let_go(key),
            Fresh::Put { key, record, .. } => {
                desk.last_hold = desk.last_hold.max(key);
                desk.let_go(key);
                match record.held(&self.keyring) {
                    Some(entity) => {
                        desk.held.entry(entity).or_default().insert(key);
                    }
                    None if record.is_released() => {}
                    None => {
                        desk.unread.insert(key, record);
                    }
                }
            }
        }
        self.tell_log(&desk);
    }

    fn take_over_note(&self, fresh: Fresh<String, Note>) {
        let mut desk = self.desk.lock();
        match fresh {
            Fresh::Anew => desk.erasing.clear(),
            Fresh::Gone { key } => {
                desk.erasing.remove(&key);
            }
            Fresh::Put { key, record, .. } => {
                // Without its key the entity is erased, and only the record of it is missing.
                if let Some(entity) = self.keyring.name_of(&key) {
                    desk.erasing.insert(key, (entity, record.node));
                }
            }
        }
    }

    fn take_over_mark(&self, fresh: Fresh<String, Mark>) {
        let now = self.clock.monotonic();
        let mut desk = self.desk.lock();
        match fresh {
            Fresh::Anew | Fresh::Gone { .. } => {}
            Fresh::Put { key, .. } => {
                desk.erased.insert(key, now);
            }
        }
        desk.erased.retain(|_, at| now.saturating_sub(*at) < REMEMBERED);
    }

    /// Returns what a name is found by, as it is written in a mark.
    fn index_of(&self, entity: &str) -> String {
        self.keyring.index_of(entity).iter().map(|byte| format!("{byte:02x}")).collect()
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
        let created_at = self.clock.now();
        self.changing_holds(|batch| {
            let desk = self.desk.lock();
            let index = self.index_of(&told.entity_id);
            let is_being_erased = desk.erasing.values().any(|(entity, _)| *entity == told.entity_id);
            if is_being_erased || desk.erased.get(&index).is_some_and(|at| *at > arrival.0) {
                return Err(HoldError::Erased);
            }
            let number = desk.last_hold + 1;
            drop(desk);
            if number > HOLDS_MAX as u64 {
                return Err(HoldError::TooMany);
            }
            let hold = Hold { id: HoldId(number), told: told.clone(), created_at, released_at: None };
            let record = self.sealed(&hold)?;
            self.holds.table().put_in(batch, &number, &record).map_err(PrivacyError::from)?;
            Ok(hold)
        })
    }

    /// Changes holds by what all nodes know of holds and of erasures: neither may have changed since.
    fn changing_holds<T>(
        &self,
        mut decide: impl FnMut(&mut Batch) -> Result<T, HoldError>,
    ) -> Result<T, HoldError> {
        let _turn = self.turn.lock();
        self.holds.change(
            |fresh| self.take_over_hold(fresh),
            |batch| {
                self.expect_erasures(batch)?;
                decide(batch)
            },
        )
    }

    /// Lets a batch be written only as long as no erasure begins or ends.
    fn expect_erasures(&self, batch: &mut Batch) -> Result<(), StoreError> {
        // In this order: an erasure leaves its mark before it takes its note away.
        self.notes.expect_in(batch, |fresh| self.take_over_note(fresh))?;
        self.marks.catch_up(|fresh| self.take_over_mark(fresh))
    }

    fn sealed(&self, hold: &Hold) -> Result<HoldRecord, PrivacyError> {
        let record = HoldRecord::seal(hold, &self.keyring);
        if record.held(&self.keyring).is_none() {
            return Err(PrivacyError::Full);
        }
        self.keyring.flush()?;
        Ok(record)
    }

    /// Returns every hold, oldest first, released ones included.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn holds(&self) -> Result<Vec<Hold>, PrivacyError> {
        let records = self.holds.table().list(&KeyRange::all(), Order::Ascending, HOLDS_MAX)?;
        Ok(records.into_iter().map(|(number, record)| record.open(HoldId(number), &self.keyring)).collect())
    }

    /// Returns a hold.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn hold_of(&self, id: HoldId) -> Result<Option<Hold>, PrivacyError> {
        Ok(self.holds.table().get(&id.0)?.map(|record| record.open(id, &self.keyring)))
    }

    /// Releases a hold, unless it was before; returns it, and whether that changed it. `None`: there is none.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn release(&self, id: HoldId) -> Result<Option<(Hold, bool)>, PrivacyError> {
        self.holds.change(
            |fresh| self.take_over_hold(fresh),
            |batch| {
                let Some(record) = self.holds.table().get(&id.0)? else { return Ok(None) };
                let was = record.open(id, &self.keyring);
                if was.released_at.is_some() {
                    return Ok(Some((was, false)));
                }
                let record = record.released(self.clock.now());
                self.holds.table().put_in(batch, &id.0, &record)?;
                Ok(Some((record.open(id, &self.keyring), true)))
            },
        )
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
        match outcome {
            Ok(affected) => {
                let erased_at = self.clock.now();
                self.mark(entity, erased_at)?;
                self.desk.lock().erasing.remove(&note);
                Ok(Erased { note, erased_at, affected: Some(affected) })
            }
            Err(error) => {
                self.let_note_go(&note)?;
                Err(error)
            }
        }
    }

    /// Notes that an entity was erased, and forgets such notes that are old.
    fn mark(&self, entity: &str, erased_at: Timestamp) -> Result<(), StoreError> {
        let index = self.index_of(entity);
        let old = erased_at - REMEMBERED;
        self.marks.change(
            |fresh| self.take_over_mark(fresh),
            |batch| {
                for (key, mark) in self.marks.table().list(&KeyRange::all(), Order::Ascending, NOTES_MAX)? {
                    if mark.erased_at < old {
                        self.marks.table().delete_in(batch, &key);
                    }
                }
                self.marks.table().put_in(batch, &index, &Mark { erased_at })
            },
        )
    }

    fn let_note_go(&self, note: &str) -> Result<(), StoreError> {
        self.notes.change(
            |fresh| self.take_over_note(fresh),
            |batch| {
                self.notes.table().delete_in(batch, &note.to_owned());
                Ok(())
            },
        )
    }

    /// Lets go of the note of an erasure, once it is recorded.
    ///
    /// # Errors
    /// When the store fails; the erasure is recorded again at the next start then.
    pub fn settle(&self, erased: &Erased) -> Result<(), StoreError> {
        self.let_note_go(&erased.note)
    }

    /// Finishes the erasures that were cut short by the end of the last process; each is still to be recorded.
    ///
    /// # Errors
    /// See [`EraseError`].
    pub fn resume(&self) -> Result<Vec<Erased>, EraseError> {
        let mut finished = Vec::new();
        for (note, left) in self.notes.table().list(&KeyRange::all(), Order::Ascending, NOTES_MAX)? {
            if !left.node.is_empty() && left.node != self.node {
                continue;
            }
            if let Some(entity) = self.keyring.name_of(&note) {
                self.forget(&entity)?;
            }
            finished.push(Erased { note, erased_at: self.clock.now(), affected: None });
        }
        Ok(finished)
    }

    /// Takes the place of an erasure and leaves its note.
    fn begin(&self, entity: &str) -> Result<String, EraseError> {
        let note = self.keyring.seal(entity).as_ref().to_owned();
        if self.notes.table().store().is_shared() && self.keyring.name_of(&note).is_none() {
            // Without the keys that nodes share nobody can be forgotten.
            return Err(EraseError::Store(StoreError::NotDurable));
        }
        self.keyring.flush()?;
        let _turn = self.turn.lock();
        self.notes.change(
            |fresh| self.take_over_note(fresh),
            |batch| {
                self.holds.expect_in(batch, |fresh| self.take_over_hold(fresh))?;
                self.keyring.follow()?;
                let mut desk = self.desk.lock();
                // A name that cannot be read with all the keys there are is nobody's.
                for (hold, record) in std::mem::take(&mut desk.unread) {
                    if let Some(entity) = record.held(&self.keyring) {
                        desk.held.entry(entity).or_default().insert(hold);
                    }
                }
                if desk.held.contains_key(entity) {
                    return Err(EraseError::Held);
                }
                if desk.erasing.values().any(|(known, _)| known == entity) {
                    return Err(EraseError::UnderWay);
                }
                let left = Note { begun_at: self.clock.now(), node: self.node.clone() };
                Ok(self.notes.table().put_in(batch, &note, &left)?)
            },
        )?;
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

    /// Returns what names are found by that were erased lately, on whichever node.
    pub fn erased_lately(&self) -> HashSet<String> {
        self.desk.lock().erased.keys().cloned().collect()
    }

    /// Tells whether a name is one of those.
    pub fn is_among(&self, erased: &HashSet<String>, name: &str) -> bool {
        erased.contains(&self.index_of(name))
    }

    /// Tells the log whose entries are not to be dropped.
    fn tell_log(&self, desk: &Desk) {
        self.log.keep(desk.held.keys().cloned().collect());
    }
}

impl Desk {
    /// Lets a hold go that is released.
    fn let_go(&mut self, hold: u64) {
        self.unread.remove(&hold);
        self.held.values_mut().for_each(|holds| {
            holds.remove(&hold);
        });
        self.held.retain(|_, holds| !holds.is_empty());
    }
}
