//! The live entries of the other nodes: as they ship them, each node's in their order.
//!
//! One look at how far the nodes have shipped serves all readers, a few times a second and only as long as there are
//! any; what is new is read once for all that stand at the same place. A reader keeps its place node by node, so that
//! it matters to nobody in which order the transactions of different nodes are committed. While the database is away
//! nothing comes, and once it is back, all that was shipped meanwhile does.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Shipping;
use crate::govern::audit::event::Entry;
use crate::govern::audit::index::QueryError;
use crate::govern::audit::query::at_ms;
use crate::govern::audit::seen::Seen;
use crate::govern::audit::stored;
use crate::id::Ulid;
use crate::store::StoreError;
use crate::store::archive::ArchiveHead;
use crate::store::archive::ArchiveRow;

/// How often it is looked how far the nodes have shipped.
const LOOK: Duration = Duration::from_millis(200);
/// How many rows of a node are read at a time.
const ROWS_AT_ONCE: usize = 256;

/// How far each node has shipped.
type Heads = Arc<Vec<ArchiveHead>>;

/// Rows of a node, and behind which one they begin.
type Rows = (u64, Arc<Vec<ArchiveRow>>);

/// What all readers of this process share.
#[derive(Default)]
pub(super) struct Others {
    heads: watch::Sender<Heads>,
    /// The rows of each node that were read last.
    read: Mutex<BTreeMap<String, Rows>>,
}

/// Where a reader stands.
#[derive(Clone)]
struct Places {
    /// Where it began.
    seen: Seen,
    /// The only node it wants to hear of, if there is one.
    only: Option<String>,
    /// The last row of each node that it was given.
    rows: BTreeMap<String, u64>,
}

/// What a look behind a reader's places brought.
struct Behind {
    places: Places,
    entries: Vec<Entry>,
    /// Whether there is more.
    is_part: bool,
    failed: Option<StoreError>,
}

/// A live reader of what the other nodes ship.
pub(in crate::govern::audit) struct OthersTail {
    shipping: Arc<Shipping>,
    heads: watch::Receiver<Heads>,
    /// Where it stands; not here while it is read behind that.
    places: Option<Places>,
    reading: Option<JoinHandle<Behind>>,
    is_away: bool,
}

impl Shipping {
    /// Returns the place behind everything that is known of all nodes now. Blocks.
    pub(in crate::govern::audit) fn seen_now(&self) -> Seen {
        let newest = *self.log.newest.read();
        let mut seen = match self.archive.heads() {
            // A node that is not there yet is read from its beginning.
            Ok(heads) => {
                let mut seen = Seen::up_to(Ulid(0));
                heads.iter().for_each(|head| seen.note(&head.node.as_str().into(), head.id));
                seen
            }
            Err(_) => Seen::up_to(at_ms(self.clock.now().as_millisecond())),
        };
        seen.note(&self.node, newest);
        seen
    }

    /// Returns a live reader of the other nodes, or one of them, behind what it has seen.
    pub(in crate::govern::audit) fn others(self: &Arc<Self>, seen: Seen, only: Option<String>) -> OthersTail {
        let places = Some(Places { seen, only, rows: BTreeMap::new() });
        let heads = self.others.heads.subscribe();
        OthersTail { shipping: Arc::clone(self), heads, places, reading: None, is_away: false }
    }

    /// Looks how far the nodes have shipped, as long as somebody wants to know, until `shutdown` resolves.
    pub async fn look_at_others(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut was_away = false;
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            if self.others.heads.receiver_count() == 0 {
                continue;
            }
            let shipping = Arc::clone(&self);
            let heads = tokio::task::spawn_blocking(move || shipping.archive.heads()).await;
            let Ok(Ok(heads)) = heads else {
                was_away = true;
                continue;
            };
            let is_new = |known: &mut Heads| {
                let is_new = was_away || **known != heads;
                *known = Arc::new(heads);
                is_new
            };
            self.others.heads.send_if_modified(is_new);
            was_away = false;
        }
    }

    /// Reads what the other nodes have behind a reader's places.
    fn behind(&self, mut places: Places, heads: &[ArchiveHead]) -> Behind {
        let (mut entries, mut is_part, mut failed) = (Vec::new(), false, None);
        for head in heads.iter().filter(|head| *head.node != *self.node) {
            if places.only.as_ref().is_some_and(|only| *only != head.node) {
                continue;
            }
            match self.behind_one(&places, head) {
                Ok((last, found)) => {
                    is_part |= last < head.sequence;
                    places.rows.insert(head.node.clone(), last);
                    entries.extend(found);
                }
                Err(error) => failed = Some(error),
            }
        }
        Behind { places, entries, is_part, failed }
    }

    /// Reads the next rows of a node; returns the last one that was looked at.
    fn behind_one(&self, places: &Places, head: &ArchiveHead) -> Result<(u64, Vec<Entry>), StoreError> {
        let seen = places.seen.of(&head.node);
        let after = match places.rows.get(&head.node) {
            Some(last) => (*last).max(head.floor),
            None if seen >= head.id => head.sequence,
            None => self.archive.place_of(&head.node, seen)?.unwrap_or_default().max(head.floor),
        };
        if after >= head.sequence {
            return Ok((after, Vec::new()));
        }
        let mut read = self.others.read.lock();
        let known =
            read.get(&head.node).filter(|(from, rows)| (*from..from + rows.len() as u64).contains(&after));
        let rows = match known {
            Some((_, rows)) => Arc::clone(rows),
            None => {
                let rows = Arc::new(self.archive.rows(&head.node, after, ROWS_AT_ONCE)?);
                read.insert(head.node.clone(), (after, Arc::clone(&rows)));
                rows
            }
        };
        drop(read);
        let new: Vec<&ArchiveRow> = rows.iter().filter(|row| row.sequence > after).collect();
        let last = new.last().map_or(head.sequence, |row| row.sequence);
        let node: Arc<str> = head.node.as_str().into();
        // What was seen elsewhere may be shipped only now.
        let entries = new.into_iter().filter(|row| row.id > seen).filter_map(|row| {
            let mut entry = stored::entry(&row.payload, &self.log.keyring)
                .inspect_err(|_| {
                    tracing::error!(
                        node = &*node,
                        sequence = row.sequence,
                        "a shipped audit entry is damaged"
                    )
                })
                .ok()?;
            entry.node = Some(Arc::clone(&node));
            Some(entry)
        });
        Ok((last, entries.collect()))
    }
}

impl OthersTail {
    /// Returns the next entries, each node's oldest first; waits until there is at least one. Dropping the call and
    /// calling again loses nothing.
    ///
    /// # Errors
    /// The process ends.
    pub(in crate::govern::audit) async fn next_batch(&mut self) -> Result<Vec<Entry>, QueryError> {
        loop {
            if self.reading.is_none() {
                let (shipping, heads) =
                    (Arc::clone(&self.shipping), Arc::clone(&self.heads.borrow_and_update()));
                let places = self.places.clone().ok_or(QueryError::Interrupted)?;
                self.reading = Some(tokio::task::spawn_blocking(move || shipping.behind(places, &heads)));
            }
            let Some(reading) = &mut self.reading else { continue };
            let read = reading.await;
            self.reading = None;
            let Behind { places, entries, is_part, failed } = read.map_err(|_| QueryError::Interrupted)?;
            self.places = Some(places);
            self.tell(failed.as_ref());
            if !entries.is_empty() {
                return Ok(entries);
            }
            let news = self.heads.changed();
            match failed {
                Some(_) => drop(tokio::time::timeout(LOOK, news).await),
                None if is_part => {}
                None => news.await.map_err(|_| QueryError::Interrupted)?,
            }
        }
    }

    fn tell(&mut self, failed: Option<&StoreError>) {
        if let Some(error) = failed.filter(|_| !self.is_away) {
            tracing::warn!(%error, "a live stream has no entries of other nodes for now");
        }
        self.is_away = failed.is_some();
    }
}
