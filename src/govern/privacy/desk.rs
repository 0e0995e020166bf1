//! The one desk at which holds and erasures take their places.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::erasure::EraseError;
use super::erasure::Erased;
use super::erasure::MARKS;
use super::erasure::Mark;
use super::erasure::NOTES;
use super::erasure::Note;
use super::erasure::own_name;
use super::hold::FieldFault;
use super::hold::HOLDS;
use super::hold::Hold;
use super::hold::HoldId;
use super::hold::HoldRecord;
use super::hold::NewHold;
use super::keeper::HeldNote;
use super::keeper::InHand;
use super::places::Gone;
use super::places::Places;
use super::provider::DataProvider;
use super::provider::Facts;
use super::provider::ProviderError;
use super::subject::Subject;
use crate::access::keyring::Keyring;
use crate::clock::Clock;
use crate::govern::audit::AuditLog;
use crate::store::Batch;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Store;
use crate::store::StoreError;

/// The most holds there may be, released ones included.
pub const HOLDS_MAX: usize = 100_000;
/// Holds, exports and erasures. All calls may block on the disk.
pub struct Privacy {
    pub(super) holds: Followed<u64, HoldRecord>,
    pub(super) notes: Followed<String, Note>,
    pub(super) marks: Followed<String, Mark>,
    pub(super) node: String,
    pub(super) keyring: Arc<Keyring>,
    log: AuditLog,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) providers: Vec<Box<dyn DataProvider>>,
    pub(super) places: Mutex<Places>,
    /// The notes of the erasures that this process has in hand.
    pub(super) in_hand: InHand,
    /// The releases of holds that may be in force, and may not be safe, with who asked for them.
    pub(super) unsure: Mutex<BTreeMap<u64, Option<String>>>,
    /// Held while a hold or an erasure takes its place: each looks at the table of the other.
    turn: Mutex<()>,
}

/// When a request came, so that it can be told whether it ran beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival(pub Duration);

/// Why a hold was not taken.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// A field is not as it should be.
    #[error(transparent)]
    Field(#[from] FieldFault),
    /// The entity, or who issues the hold, is being erased, or was since the hold was asked for: there is nothing left to
    /// be held, or nobody who holds it.
    #[error("the entity, or who issues the hold, is being erased: the hold came too late")]
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
            places: Mutex::default(),
            in_hand: InHand::default(),
            unsure: Mutex::default(),
            turn: Mutex::new(()),
        };
        privacy.follow()?;
        Ok(privacy)
    }

    /// Returns where holds and erasures lie.
    pub fn store(&self) -> &Store {
        self.holds.table().store()
    }

    /// Takes over the holds and erasures of other nodes. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.marks.catch_up(|fresh| self.take_over_mark(fresh))?;
        self.notes.catch_up(|fresh| self.take_over_note(fresh))?;
        self.holds.catch_up(|fresh| self.take_over_hold(fresh))?;
        // Keys are there before the holds that need them, but may be heard of after these.
        self.keyring.follow()?;
        self.read_again();
        Ok(())
    }

    /// Takes over what became of holds; neither who asks nor the log sees less than was or is in force.
    pub(super) fn take_over_hold(&self, fresh: Vec<Fresh<u64, HoldRecord>>) {
        let mut places = self.places.lock();
        for one in fresh {
            match one {
                Fresh::Anew => places.let_all_go(),
                Fresh::Gone { key } => places.let_go(key),
                Fresh::Put { key, record, .. } => places.hold(key, record, &self.keyring),
            }
        }
        self.tell_log(&places);
    }

    pub(super) fn take_over_note(&self, fresh: Vec<Fresh<String, Note>>) {
        let now = self.clock.monotonic();
        let mut places = self.places.lock();
        for one in fresh {
            match one {
                Fresh::Anew => {
                    let known: Vec<String> = places.erasing.keys().cloned().collect();
                    known.iter().for_each(|note| places.end(note, now, |name| self.index_of(name)));
                }
                Fresh::Gone { key } => places.end(&key, now, |name| self.index_of(name)),
                Fresh::Put { key, record, .. } => {
                    // Without its key the entity is erased, and only the record of it is missing.
                    let names = record.names(&key, &self.keyring);
                    if !names.is_empty() {
                        places.erasing.insert(key, names);
                    }
                }
            }
        }
    }

    pub(super) fn take_over_mark(&self, fresh: Vec<Fresh<String, Mark>>) {
        let now = self.clock.monotonic();
        let mut places = self.places.lock();
        let mut before = HashMap::new();
        for one in fresh {
            match one {
                Fresh::Anew => before = std::mem::take(&mut places.erased),
                Fresh::Gone { key } => drop(places.erased.remove(&key)),
                Fresh::Put { key, record: Mark { erased_at }, .. } => {
                    let known = before.remove(&key).filter(|known: &Gone| known.erased_at == erased_at);
                    let known_at = known.map_or(now, |known| known.known_at);
                    places.erased.insert(key, Gone { erased_at, known_at });
                }
            }
        }
    }

    /// Returns what a name is found by, as it is written in a mark.
    pub(super) fn index_of(&self, entity: &str) -> String {
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
    pub fn hold(&self, mut told: NewHold, arrival: Arrival) -> Result<Hold, HoldError> {
        told.check()?;
        told.entity_id = self.spelling(&told.entity_id);
        let created_at = self.clock.now();
        self.changing_holds(|batch| {
            let subject = Subject::of(&told.entity_id, &self.providers);
            let issuer = Subject::of(&told.issued_by, &self.providers);
            let number = self.next_hold(&[subject.names.as_slice(), &issuer.names].concat(), arrival)?;
            if number > HOLDS_MAX as u64 {
                return Err(HoldError::TooMany);
            }
            let hold = Hold { id: HoldId(number), told: told.clone(), created_at, released_at: None };
            let record = self.flushed(HoldRecord::seal(&hold, &subject, &self.keyring))?;
            self.holds.table().put_in(batch, &number, &record).map_err(PrivacyError::from)?;
            Ok(hold)
        })
    }

    /// Returns the number of a hold that has to do with these names, unless it comes too late.
    fn next_hold(&self, names: &[String], arrival: Arrival) -> Result<u64, HoldError> {
        let places = self.places.lock();
        let mark = |name: &String| places.erased.get(&self.index_of(name));
        let was_erased = |name: &String| mark(name).is_some_and(|mark| mark.known_at > arrival.0);
        if places.is_being_erased(names) || names.iter().any(was_erased) {
            return Err(HoldError::Erased);
        }
        Ok(places.last_hold + 1)
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
        // In this order: an erasure leaves its marks before it takes its note away.
        self.notes.expect_in(batch, |fresh| self.take_over_note(fresh))?;
        self.marks.catch_up(|fresh| self.take_over_mark(fresh))
    }

    /// Returns a record that was sealed just now, once what it names would be read after a power cut.
    fn flushed(&self, record: HoldRecord) -> Result<HoldRecord, PrivacyError> {
        if record.named(&self.keyring).count() < record.count() {
            return Err(PrivacyError::Full);
        }
        self.keyring.flush()?;
        Ok(record)
    }

    /// Lets the holds on an entity keep the names it may share with others, before it loses one of them. Blocks.
    ///
    /// # Errors
    /// They could not be read or written.
    pub fn keep_names(&self, entity: &str) -> Result<(), PrivacyError> {
        let Subject { names, shared } = Subject::of(entity, &self.providers);
        self.holds.change(
            |fresh| self.take_over_hold(fresh),
            |batch| {
                let numbers = self.places.lock().holds_on(&names);
                for number in numbers {
                    let Some(record) = self.holds.table().get(&number)? else { continue };
                    if let Some(record) = record.with_shared(&shared, &self.keyring) {
                        self.holds.table().put_in(batch, &number, &self.flushed(record)?)?;
                    }
                }
                Ok(())
            },
        )
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

    /// Tells whether a hold on an entity is in force, whichever of its names the hold has and it is asked by, and in
    /// whatever case.
    pub fn is_held(&self, entity: &str) -> bool {
        self.holds_one(&Subject::of(entity, &self.providers))
    }

    /// Does what would take an entity's record away, unless a hold on the entity is in force: then it is `None`. No hold
    /// of this node is taken meanwhile; one of another node counts once this one heard of it. Blocks.
    ///
    /// # Errors
    /// The store failed: what other nodes hold is not known.
    pub fn unless_held<T>(&self, entity: &str, act: impl FnOnce() -> T) -> Result<Option<T>, StoreError> {
        let _turn = self.turn.lock();
        self.holds.catch_up(|fresh| self.take_over_hold(fresh))?;
        Ok((!self.is_held(entity)).then(act))
    }

    fn holds_one(&self, subject: &Subject) -> bool {
        let places = self.places.lock();
        subject.goes_by(|name| places.is_held(name))
            || subject.names.iter().any(|name| places.is_held_beside(name))
    }

    /// Tells whether two names are those of one entity.
    pub fn are_one(&self, entity: &str, other: &str) -> bool {
        Subject::of(entity, &self.providers).names.iter().any(|name| name == other)
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
    /// See [`EraseError`]. What broke off is under way still, and finished by [`Privacy::resume`], unless it was refused.
    pub fn erase(&self, entity: &str) -> Result<Erased, EraseError> {
        let (note, names) = self.begin(entity).map_err(EraseError::before_note)?;
        match self.forget(&names) {
            Ok(affected) => {
                let erased_at = self.clock.now();
                let now = self.clock.monotonic();
                self.places.lock().end(note.token(), now, |name| self.index_of(name));
                Ok(Erased { note, erased_at, affected: Some(affected) })
            }
            Err(error) => {
                // Some of the names may be forgotten by now: the note alone knows them all, and is finished later.
                if matches!(error, EraseError::Provider(ProviderError::Refused(_)))
                    && let Err(fault) = self.let_note_go(note.token())
                {
                    tracing::error!(%fault, "the note of a refused erasure could not be taken away");
                }
                Err(error)
            }
        }
    }

    /// Notes that the entity of these names is erased: for the other nodes, whenever they hear of it.
    fn mark(&self, names: &[String]) -> Result<(), StoreError> {
        let erased_at = self.clock.now();
        self.marks.change(
            |fresh| self.take_over_mark(fresh),
            |batch| {
                let mut indexes = names.iter().map(|name| self.index_of(name));
                indexes.try_for_each(|index| self.marks.table().put_in(batch, &index, &Mark { erased_at }))
            },
        )
    }

    pub(super) fn let_note_go(&self, note: &str) -> Result<(), StoreError> {
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
    /// When the store fails; the erasure is recorded again by [`Privacy::resume`] then.
    pub fn settle(&self, erased: &Erased) -> Result<(), StoreError> {
        self.let_note_go(erased.note.token())
    }

    /// Takes the place of an erasure and leaves its note; returns that and the entity's names.
    fn begin(&self, entity: &str) -> Result<(HeldNote, Vec<String>), EraseError> {
        let _turn = self.turn.lock();
        let mut written = None;
        let begun = self.notes.change(
            |fresh| self.take_over_note(fresh),
            |batch| {
                self.holds.expect_in(batch, |fresh| self.take_over_hold(fresh))?;
                self.keyring.follow()?;
                self.read_again();
                let mut subject = Subject::of(entity, &self.providers);
                if self.holds_one(&subject) {
                    return Err(EraseError::Held);
                }
                if let Some(own) = subject.names.iter().find_map(|name| own_name(name)) {
                    return Err(EraseError::Own(own));
                }
                let spellings = self.spellings(&subject.names)?;
                subject.names.extend(spellings);
                if subject.names.iter().any(|name| self.places.lock().has_issued(name)) {
                    return Err(EraseError::Issuer);
                }
                if self.places.lock().is_being_erased(&subject.names) {
                    return Err(EraseError::UnderWay);
                }
                let (note, left) = self.note_of(&subject.names)?;
                // Before anybody can see it: it is not to be finished by somebody else.
                let held = self.in_hand.take(&note).ok_or(EraseError::UnderWay)?;
                self.notes.table().put_in(batch, &note, &left)?;
                written = Some(note);
                Ok((held, subject.names))
            },
        );
        if let (Err(EraseError::Store(StoreError::NotDurable)), Some(note)) = (&begun, written) {
            // It stands, and its owner is told to ask again. That it is gone may not be safe either, and need not be.
            let _ = self.let_note_go(&note);
        }
        begun
    }

    fn read_again(&self) {
        let mut places = self.places.lock();
        if places.read_again(&self.keyring) {
            self.tell_log(&places);
        }
    }

    /// Returns the note of an erasure that begins now, and what it is found by.
    fn note_of(&self, names: &[String]) -> Result<(String, Note), EraseError> {
        let mut tokens = names.iter().map(|name| self.keyring.keep(name).as_ref().to_owned());
        let note = tokens.next().unwrap_or_default();
        let left = Note { begun_at: self.clock.now(), also: tokens.collect(), node: self.node.clone() };
        if self.notes.table().store().is_shared() && left.names(&note, &self.keyring).len() < names.len() {
            // Without the keys that nodes share nobody can be forgotten.
            return Err(EraseError::Store(StoreError::NotDurable));
        }
        self.keyring.flush()?;
        Ok((note, left))
    }

    /// Lets every provider forget an entity, tells the other nodes, then destroys the keys of its names: as long as
    /// these are there whoever resumes knows whom it was about.
    pub(super) fn forget(&self, names: &[String]) -> Result<BTreeMap<&'static str, u64>, EraseError> {
        let mut affected = BTreeMap::new();
        for provider in &self.providers {
            let count = provider.erase(names)?;
            if count > 0 {
                affected.insert(provider.name(), count);
            }
        }
        self.mark(names)?;
        for name in names {
            self.keyring.destroy(name)?;
        }
        Ok(affected)
    }

    /// Tells the log whose entries are not to be dropped.
    fn tell_log(&self, places: &Places) {
        self.log.keep(places.held.keys().cloned().collect());
    }
}
