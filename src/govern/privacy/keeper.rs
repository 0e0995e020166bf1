//! What becomes of erasures afterwards: those that were cut short are finished, and those that are long ago forgotten.

use std::collections::HashMap;
use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::desk::Privacy;
use super::desk::PrivacyError;
use super::erasure::EraseError;
use super::erasure::Erased;
use super::erasure::Note;
use super::provider::ProviderError;
use crate::clock::Clock;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::Recorder;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::StoreError;

/// How long it is kept that an entity was erased, so that a node which was away drops its own records of it: a year.
/// What is kept is a keyed hash of each of its names.
pub const MARKS_KEPT: Duration = Duration::from_secs(365 * 86_400);
/// The most erased names of which that is kept; past it the oldest go.
const MARKS_MAX: usize = 100_000;
/// By how much the clocks of two nodes may differ: a record that was begun no later than this after the erasure of
/// its entity counts as one from before it.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(300);
/// The most erasures that are finished at a time.
const NOTES_MAX: usize = 10_000;
/// How often it is looked for erasures that were cut short.
const RESUME_EVERY: Duration = Duration::from_secs(60);
/// How many looks lie between two times that old marks are forgotten: an hour.
const FORGET_EVERY: u64 = 60;

/// The notes of erasures that somebody in this process has in hand.
#[derive(Clone, Debug, Default)]
pub(super) struct InHand(Arc<Mutex<HashSet<String>>>);

/// The note of an erasure, in the hands of whoever erases until it is dropped.
#[derive(Debug)]
pub(super) struct HeldNote {
    token: String,
    all: InHand,
}

/// The entities that were erased on whichever node, and when, by what their names are found by.
pub type ErasedNames = HashMap<String, Timestamp>;

impl InHand {
    /// Takes a note; `None`: somebody has it.
    pub(super) fn take(&self, token: &str) -> Option<HeldNote> {
        let is_free = self.0.lock().insert(token.to_owned());
        is_free.then(|| HeldNote { token: token.to_owned(), all: self.clone() })
    }
}

impl HeldNote {
    /// Returns what it is found by.
    pub(super) fn token(&self) -> &str {
        &self.token
    }
}

impl Drop for HeldNote {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.token);
    }
}

impl Privacy {
    /// Finishes the erasures of this node that were cut short, by the end of its last process or by a fault; each
    /// that is finished is still to be recorded. One that fails stays for the next time and keeps no other back;
    /// one that a provider refuses is given up.
    ///
    /// # Errors
    /// The store failed; nothing was looked at.
    pub fn resume(&self) -> Result<Vec<Result<Erased, EraseError>>, StoreError> {
        self.keyring.follow()?;
        let notes = self.notes.table().list(&KeyRange::all(), Order::Ascending, NOTES_MAX)?;
        let own = notes.into_iter().filter(|(_, left)| left.node.is_empty() || left.node == self.node);
        let free = own.filter_map(|(token, left)| Some((self.in_hand.take(&token)?, left)));
        Ok(free.filter_map(|(note, left)| self.finish(note, &left)).collect())
    }

    /// Takes over the erasures of nodes that are gone, so that [`Privacy::resume`] finishes them here; returns how many.
    /// A node that comes back after all finds that the erasure is not its own any more.
    ///
    /// # Errors
    /// The store failed; nothing was taken over.
    pub fn adopt(&self, is_gone: impl Fn(&str) -> bool) -> Result<usize, StoreError> {
        self.notes.change(
            |fresh| self.take_over_note(fresh),
            |batch| {
                let mut adopted = 0;
                for (token, left) in self.notes.table().list(&KeyRange::all(), Order::Ascending, NOTES_MAX)? {
                    if left.node.is_empty() || left.node == self.node || !is_gone(&left.node) {
                        continue;
                    }
                    self.notes.table().put_in(batch, &token, &Note { node: self.node.clone(), ..left })?;
                    adopted += 1;
                }
                Ok(adopted)
            },
        )
    }

    /// Finishes one; `None`: whoever had it in hand has just finished it.
    fn finish(&self, note: HeldNote, left: &Note) -> Option<Result<Erased, EraseError>> {
        match self.notes.table().get(&note.token) {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => return Some(Err(error.into())),
        }
        let names = left.names(&note.token, &self.keyring);
        let forgotten = if names.is_empty() { Ok(()) } else { self.forget(&names).map(drop) };
        if matches!(forgotten, Err(EraseError::Provider(ProviderError::Refused(_))))
            && let Err(error) = self.let_note_go(&note.token)
        {
            return Some(Err(error.into()));
        }
        Some(forgotten.map(|()| Erased { note, erased_at: self.clock.now(), affected: None }))
    }

    /// Forgets the marks of erasures that are longer ago than [`MARKS_KEPT`] at a moment that has surely come, and the
    /// oldest where there are too many.
    ///
    /// # Errors
    /// The store failed.
    pub fn forget_marks(&self, now: Timestamp) -> Result<(), StoreError> {
        let oldest = now.checked_sub(MARKS_KEPT).unwrap_or(Timestamp::MIN);
        self.marks.change(
            |fresh| self.take_over_mark(fresh),
            |batch| {
                let places = self.places.lock();
                let mut all: Vec<_> = places.erased.iter().map(|(key, gone)| (gone.erased_at, key)).collect();
                all.sort_unstable();
                let too_many = all.len().saturating_sub(MARKS_MAX);
                let old = all
                    .iter()
                    .enumerate()
                    .filter(|(at, (erased_at, _))| *at < too_many || *erased_at < oldest);
                old.for_each(|(_, (_, key))| self.marks.table().delete_in(batch, key));
                Ok(())
            },
        )
    }

    /// Lets the names age out that nothing names any more, at a moment that has surely come; returns how many.
    ///
    /// # Errors
    /// Who is named cannot be told, or a key could not be destroyed.
    pub fn age_out(&self, now: Timestamp) -> Result<usize, PrivacyError> {
        let callers = self.providers.iter().map(|provider| provider.callers());
        let callers = callers.collect::<Result<Vec<_>, _>>()?;
        let since = callers.iter().filter_map(|callers| callers.since).min();
        // What comes after this look names only whom it sees.
        let since = since.map_or(now, |since| since.min(now));
        let held: Vec<String> = self.places.lock().held.keys().cloned().collect();
        let kept = callers.iter().flat_map(|callers| &callers.also).chain(&held).map(String::as_str);
        Ok(self.keyring.age_out(since, kept)?)
    }

    /// Returns the entities that were erased, on whichever node.
    pub fn erased(&self) -> ErasedNames {
        let places = self.places.lock();
        places.erased.iter().map(|(key, gone)| (key.clone(), gone.erased_at)).collect()
    }

    /// Tells whether what is kept under a name since a time is to be dropped: whose it was is one of those.
    pub fn is_among(&self, erased: &ErasedNames, name: &str, since: Timestamp) -> bool {
        if erased.is_empty() {
            return false;
        }
        let erased_at = erased.get(&self.index_of(name)).copied();
        erased_at.is_some_and(|at| since <= at.checked_add(CLOCKS_APART_MAX).unwrap_or(Timestamp::MAX))
    }
}

/// Finishes what was cut short, and records it.
pub struct Keeper {
    /// Where erasures are made.
    pub privacy: Arc<Privacy>,
    /// Where they are recorded.
    pub recorder: Recorder,
}

impl Keeper {
    /// Finishes and records the erasures that were cut short, and records the releases of holds that are known to be safe
    /// by now, as far as that can be done. Blocks.
    pub fn look(&self) {
        self.record_releases();
        match self.privacy.resume() {
            Ok(resumed) => resumed.into_iter().for_each(|outcome| self.tell(outcome)),
            Err(error) => tracing::warn!(%error, "erasures that were cut short cannot be looked for"),
        }
    }

    fn record_releases(&self) {
        let confirmed = match self.privacy.confirmed() {
            Ok(confirmed) => confirmed,
            Err(error) => return tracing::warn!(%error, "whether holds were released cannot be told yet"),
        };
        for (hold, actor) in confirmed {
            if let Err(error) = self.recorder.record_soon(AuditEvent { actor, ..hold.released() }) {
                tracing::error!(%error, hold = %hold.id, "the release of a hold could not be recorded");
            }
        }
    }

    fn tell(&self, outcome: Result<Erased, EraseError>) {
        let erased = match outcome {
            Ok(erased) => erased,
            Err(error) => {
                return tracing::error!(%error, "an erasure that was cut short could not be finished yet");
            }
        };
        tracing::warn!("an erasure that was cut short was finished");
        let recorded = self.recorder.record_soon(erased.event()).map_err(|error| error.to_string());
        let settled = recorded.and_then(|()| self.privacy.settle(&erased).map_err(|error| error.to_string()));
        if let Err(error) = settled {
            tracing::error!(error, "an erasure could not be recorded yet");
        }
    }

    /// Forgets what is long ago. Blocks.
    fn forget(&self, now: Timestamp) {
        if let Err(error) = self.privacy.forget_marks(now) {
            tracing::warn!(%error, "the marks of old erasures could not be forgotten");
        }
        match self.privacy.age_out(now) {
            Ok(0) => {}
            Ok(names) => tracing::info!(names, "names that nothing tells of any more were forgotten"),
            Err(error) => tracing::warn!(%error, "names that nothing tells of could not be forgotten"),
        }
    }

    /// Looks for what was cut short, and forgets what is long ago by the `sure` clock, until `shutdown` resolves.
    pub async fn run(self, sure: Arc<dyn Clock>, shutdown: impl Future<Output = ()>) {
        let (mut shutdown, keeper) = (pin!(shutdown), Arc::new(self));
        for looks in 0u64.. {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = tokio::time::sleep(RESUME_EVERY) => {}
            }
            let (keeper, now) = (Arc::clone(&keeper), sure.now());
            let work = move || {
                keeper.look();
                if looks % FORGET_EVERY == 0 {
                    keeper.forget(now);
                }
            };
            if tokio::task::spawn_blocking(work).await.is_err() {
                tracing::error!("finishing erasures panicked");
            }
        }
    }
}
