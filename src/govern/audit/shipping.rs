//! Ships the journal to where all nodes' entries are kept in common.
//!
//! In: what is safe in this node's journal. Out: the same bytes, in the same order, numbered from 1 on, as rows of an
//! [`Archive`]; what they are found by lies beside them, names as the tokens that the journal has. So whoever is erased
//! there is erased here: there is one key for both.
//!
//! The place up to which a journal was shipped lies beside the rows and moves with them, in one transaction: after a
//! crash, a database that was away, or an answer that was lost, shipping goes on where the rows end. Nothing waits for
//! it, and nothing of it is kept in memory but one batch: what is waiting lies in the journal, whose retention lets it
//! lie up to [`UNSHIPPED_FACTOR`] times its size.
//!
//! Entries of the first release, which hold names in plain text, are not shipped: an erasure could not reach them. The
//! node that has them answers with them all the same, and tells the others of them (see [`plain`]), whose answers are
//! then incomplete.
//!
//! Two processes of one name, where a state folder was copied, would go on behind each other's rows, each passing over what
//! the other was faster with: while there are two, nothing is shipped. What was passed over until that
//! was known is counted.
//!
//! What it does not promise: that what a node recorded in its last moments was shipped when it dies for good. How
//! much is waiting, each node [tells](Shipping::status) all the time.

mod facets;
mod others;
mod plain;
mod read;
mod retention;
mod verify;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;

use super::chain::Hash;
use super::index::Index;
use super::index::QueryError;
use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::stored;
use crate::clock::Clock;
use crate::id::Ulid;
use crate::store::Store;
use crate::store::archive::Archive;
use crate::store::archive::ArchiveHead;
use crate::store::archive::ArchiveRow;
use crate::telemetry::metrics::Metrics;

use self::others::Others;
use self::plain::Plain;

pub(super) use self::others::OthersTail;
pub use self::verify::ShippedChain;
pub use self::verify::verify_shipped;

/// How many times its size a journal may grow while what it has to drop is not shipped yet.
pub(super) const UNSHIPPED_FACTOR: u64 = 2;
/// The most entries of a batch.
const BATCH_ENTRIES: usize = 500;
/// About the most bytes of a batch.
const BATCH_BYTES: usize = 4 << 20;
/// How long entries gather before they are shipped.
const GATHER: Duration = Duration::from_millis(50);
/// How long to wait before the next try.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the end of the process waits for the last entries.
const FAREWELL: Duration = Duration::from_secs(3);

/// Ships one journal, and answers for all of them.
pub struct Shipping {
    node: Arc<str>,
    archive: Archive,
    plain: Plain,
    log: Arc<Log>,
    index: Arc<Index>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// Held while a batch is shipped; `None`: where the rows end has to be asked.
    place: Mutex<Option<Place>>,
    progress: Mutex<Progress>,
    others: Others,
    has_twin: HasTwin,
}

/// Tells whether another process runs as this node.
pub type HasTwin = Box<dyn Fn() -> bool + Send + Sync>;

/// How far a node's entries are in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShipStatus {
    /// The number of the newest entry that was shipped; 0: none was.
    pub sequence: u64,
    /// How many entries are waiting.
    pub waiting: u64,
    /// How long the oldest of them has been.
    pub waiting_for: Duration,
}

/// Where the rows end, and where the journal goes on.
struct Place {
    head: ArchiveHead,
    next: Position,
}

#[derive(Default)]
struct Progress {
    head: Option<ArchiveHead>,
    /// How many entries were waiting when that was counted, and how many the journal had been given by then.
    counted: u64,
    appended: u64,
    shipped_since: u64,
    /// The oldest entry that is known to wait.
    oldest: Option<Ulid>,
    /// The segment that is being shipped.
    segment: u64,
    /// The newest entry of the first release, and the oldest segment when it was looked for.
    plain: Option<(Ulid, u64)>,
    /// Up to where entries were shipped for certain by this process.
    shipped_up_to: Option<Position>,
}

/// Entries on their way.
struct Batch {
    rows: Vec<ArchiveRow>,
    previous: Hash,
    hash: Hash,
    next: Position,
}

impl Shipping {
    pub(super) fn new(
        node: String,
        (store, archive): (&Store, Archive),
        (log, index, clock): (Arc<Log>, Arc<Index>, Arc<dyn Clock>),
        metrics: Arc<Metrics>,
        has_twin: HasTwin,
    ) -> Self {
        let (plain, place, progress) = (Plain::new(store), Mutex::default(), Mutex::default());
        let (node, others) = (node.into(), Others::default());
        Self { node, archive, plain, log, index, clock, metrics, place, progress, others, has_twin }
    }

    /// Returns the name of this node.
    pub(super) fn node(&self) -> &Arc<str> {
        &self.node
    }

    /// Returns how far this node's entries are in common.
    pub fn status(&self) -> ShipStatus {
        let progress = self.progress.lock();
        let appended = self.log.appended.load(Ordering::Acquire).saturating_sub(progress.appended);
        let waiting = (progress.counted + appended).saturating_sub(progress.shipped_since);
        let since = progress.oldest.filter(|_| waiting > 0);
        let ms = since.map_or(0, |id| self.clock.now().as_millisecond() - id.unix_ms());
        ShipStatus {
            sequence: progress.head.as_ref().map_or(0, |head| head.sequence),
            waiting,
            waiting_for: Duration::from_millis(ms.max(0) as u64),
        }
    }

    /// Tells whether entries of a segment may still have to be shipped.
    pub(super) fn is_waiting_for(&self, segment: u64) -> bool {
        segment >= self.progress.lock().segment
    }

    /// Counts entries that were dropped before they were shipped.
    pub(super) fn lost(&self, segment: u64) {
        self.metrics.audit_shipped("lost", 1);
        tracing::error!(
            segment,
            "an audit segment was dropped before it was shipped: the database was away for too long"
        );
    }

    /// Ships until `shutdown` resolves, and what was written until then.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut committed = self.log.committed.subscribe();
        let mut is_away = false;
        loop {
            let news = async {
                if is_away || committed.changed().await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
                tokio::time::sleep(GATHER).await;
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = news => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
            is_away = !self.round(is_away).await;
        }
        let until = self.clock.monotonic() + FAREWELL;
        while !self.log.is_over.load(Ordering::Acquire) && self.clock.monotonic() < until {
            tokio::time::sleep(GATHER).await;
        }
        if !self.round(is_away).await {
            let waiting = self.status().waiting;
            tracing::warn!(
                waiting,
                "the last audit entries were not shipped: they are, once this node is back"
            );
        }
    }

    /// Ships everything there is; tells whether that could be done.
    async fn round(self: &Arc<Self>, was_away: bool) -> bool {
        let shipping = Arc::clone(self);
        let shipped = tokio::task::spawn_blocking(move || shipping.ship_all()).await;
        let status = self.status();
        self.metrics.audit_waiting(status.waiting, status.waiting_for.as_secs_f64());
        match shipped {
            Ok(Ok(())) => {
                if was_away {
                    tracing::info!("the audit log is shipped again");
                }
                true
            }
            Ok(Err(error)) => {
                self.metrics.audit_shipped("failed", 1);
                if !was_away {
                    tracing::error!(%error, "the audit log cannot be shipped: entries wait in the journal");
                }
                false
            }
            Err(_) => {
                tracing::error!("shipping the audit log panicked");
                false
            }
        }
    }

    /// Ships what is in the journal now. Blocks.
    pub(super) fn ship_all(&self) -> Result<(), QueryError> {
        let until = self.log.committed();
        loop {
            if (self.has_twin)() {
                return Err(QueryError::Held);
            }
            let mut place = self.place.lock();
            let here = match place.take() {
                Some(here) => here,
                None => self.find_place()?,
            };
            if here.next >= until {
                *place = Some(here);
                return self.look_for_plain();
            }
            *place = Some(self.step(here)?);
        }
    }

    /// Asks where the rows end, and counts what is waiting.
    fn find_place(&self) -> Result<Place, QueryError> {
        let head = self.archive.head(&self.node)?;
        let next = match head.sequence {
            0 => self.log.start(),
            _ => self.index.position_after(head.id)?,
        };
        let passed_over = self.passed_over(&head, next)?;
        if passed_over > 0 {
            self.metrics.audit_shipped("passed_over", passed_over);
            tracing::error!(
                entries = passed_over,
                "audit entries are in this node's journal alone: another process has shipped as this node"
            );
        }
        let (until, appended) = self.log.committed_and_appended();
        let mut reader = self.log.reader(next);
        let mut counted = 0;
        while let Some((at, _)) = reader.next_readable()? {
            if at >= until {
                break;
            }
            counted += 1;
        }
        let plain = self.newest_plain()?;
        self.plain.tell(&self.node, plain.map(|(newest, _)| newest))?;
        let mut progress = self.progress.lock();
        let oldest = progress.oldest;
        *progress = Progress {
            head: Some(head.clone()),
            counted,
            appended,
            shipped_since: 0,
            oldest,
            segment: next.segment,
            plain,
            shipped_up_to: Some(next),
        };
        Ok(Place { head, next })
    }

    /// Counts the entries from where this process has shipped up to on, to where shipping goes on behind rows that end with
    /// another's: where they end with its own, it was the answer that was lost.
    fn passed_over(&self, head: &ArchiveHead, next: Position) -> Result<u64, QueryError> {
        let Some(from) = self.progress.lock().shipped_up_to.filter(|from| *from < next) else { return Ok(0) };
        let (mut reader, mut count) = (self.log.reader(from), 0);
        while let Some((at, payload)) = reader.next_readable()? {
            if at >= next {
                break;
            }
            if stored::split(payload).is_ok_and(|(_, hash, _)| hash.0 == head.hash) {
                return Ok(0);
            }
            count += 1;
        }
        Ok(count)
    }

    /// Notices that retention dropped entries of the first release.
    fn look_for_plain(&self) -> Result<(), QueryError> {
        let oldest = self.log.start().segment;
        let looked_at = self.progress.lock().plain.map(|(_, oldest)| oldest);
        if looked_at.is_none_or(|looked_at| looked_at == oldest) {
            return Ok(());
        }
        let plain = self.newest_plain()?;
        self.plain.tell(&self.node, plain.map(|(newest, _)| newest))?;
        self.progress.lock().plain = plain;
        Ok(())
    }

    /// Returns the newest entry of the first release, and the oldest segment: they are the first ones of a journal.
    fn newest_plain(&self) -> Result<Option<(Ulid, u64)>, QueryError> {
        let start = self.log.start();
        let mut reader = self.log.reader(start);
        let mut newest = None;
        while let Some((_, payload)) = reader.next_readable()? {
            match stored::outline(payload) {
                Ok(plain) if plain.is_plain() => newest = Some((plain.id, start.segment)),
                Ok(_) => break,
                Err(_) => {}
            }
        }
        Ok(newest)
    }

    /// Ships one batch.
    fn step(&self, place: Place) -> Result<Place, QueryError> {
        let Place { mut head, next } = place;
        let Some(batch) = self.read(&head, next)? else {
            let next = self.log.committed();
            self.progress.lock().segment = next.segment;
            return Ok(Place { head, next });
        };
        let oldest = batch.rows.first().map(|row| row.id);
        self.progress.lock().oldest = oldest;
        if head.sequence == 0 {
            head.floor_hash = batch.previous.0;
        } else if head.hash != batch.previous.0 {
            self.metrics.audit_shipped("broken", 1);
            tracing::error!(
                sequence = head.sequence,
                "the journal does not go on where it was shipped up to: its verification will say so"
            );
        }
        let count = batch.rows.len() as u64;
        let head = self.archive.append(&head, batch.rows, batch.hash.0)?;
        self.metrics.audit_shipped("shipped", count);
        let mut progress = self.progress.lock();
        progress.head = Some(head.clone());
        progress.shipped_since += count;
        progress.segment = batch.next.segment;
        progress.shipped_up_to = Some(batch.next);
        Ok(Place { head, next: batch.next })
    }

    /// Reads the next entries; `None`: there are none that are to be shipped. A batch ends before what is damaged, so
    /// that the next one does not go on where it ended, and its verification says so.
    fn read(&self, head: &ArchiveHead, from: Position) -> Result<Option<Batch>, QueryError> {
        let mut reader = self.log.reader(from);
        let mut batch: Option<Batch> = None;
        let (mut sequence, mut bytes) = (head.sequence, 0);
        loop {
            let read = reader.next();
            if matches!(read, Err(ReadError::Damaged { .. })) {
                reader.skip_damage()?;
                if batch.is_some() { break } else { continue }
            }
            let Some((at, payload)) = read? else { break };
            let readable =
                stored::row(sequence + 1, payload).and_then(|row| Ok((row, stored::split(payload)?)));
            let Ok((row, (previous, hash, _))) = readable else {
                if batch.is_some() { break } else { continue }
            };
            let Some(row) = row else {
                self.progress.lock().shipped_since += 1;
                continue;
            };
            sequence += 1;
            bytes += payload.len();
            let batch = batch.get_or_insert_with(|| Batch { rows: Vec::new(), previous, hash, next: at });
            batch.rows.push(row);
            batch.hash = hash;
            if batch.rows.len() >= BATCH_ENTRIES || bytes >= BATCH_BYTES {
                break;
            }
        }
        let next = reader.position();
        Ok(batch.map(|batch| Batch { next, ..batch }))
    }
}

#[cfg(test)]
mod tests;
