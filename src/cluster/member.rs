//! Who is there: a row for each node, which it changes once a second.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::Sharing;
use super::millis;
use crate::clock::Clock;
use crate::id::UlidSource;
use crate::store::Batch;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// How often a node changes its row, and looks at the others'.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);
/// After how long without a change a node counts as away.
pub const AWAY_AFTER: Duration = Duration::from_secs(5);
/// The most nodes that are looked at.
pub const NODES_MAX: usize = 1000;
/// After how long a node that is away is shown no more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(86_400);
/// How long a start waits for a sign of life of a process that may run as the same node.
const TWIN_AFTER: Duration = Duration::from_millis(2_500);
/// At how many beats in a row another process's row is found before it counts as one: what a process wrote that has ended
/// since may come late, once.
const TWIN_BEATS: u32 = 2;
/// How often a start looks whether another node is there.
const CLAIM_STEP: Duration = Duration::from_millis(250);

const TABLE: &str = "cluster.nodes";

/// What a node tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Where its management plane listens.
    pub address: Option<String>,
    /// The release it runs.
    pub release: String,
    /// The revision of the rules it serves.
    pub revision: u64,
    /// Whether all it depends on is well.
    pub is_healthy: bool,
    /// How far its audit log was shipped; `None`: it ships nothing, or is of a release that did not.
    pub audit: Option<AuditFacts>,
}

/// How far a node's audit log was shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFacts {
    /// The number of the newest entry that was shipped.
    pub shipped: u64,
    /// How many were waiting.
    pub waiting: u64,
    /// How long the oldest of them had been, in milliseconds.
    pub waiting_ms: u64,
}

/// A node as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct NodeRecord {
    address: Option<String>,
    release: String,
    revision: u64,
    is_healthy: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audit: Option<AuditFacts>,
    /// Rises with every change of the row.
    beat: u64,
    /// When the row was changed, by the node's own clock: to be shown, never compared.
    at: Timestamp,
    /// Whether the node has the database for itself.
    is_alone: bool,
    /// Which process wrote it, drawn at its start; `None`: an earlier release did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<u64>,
}

impl Record for NodeRecord {
    const VERSION: u32 = 1;
}

/// A node as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub id: String,
    /// What it tells of itself.
    pub facts: NodeFacts,
    /// When it told it, by its own clock.
    pub at: Timestamp,
    /// How long ago that was seen here, in milliseconds.
    pub silent_ms: u64,
    /// Whether it counts as there.
    pub is_there: bool,
}

/// Why a node may not use the database.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another node is there, and one of the two wants to be alone.
    #[error(
        "node {id} uses the same database: every node needs [cluster] enabled = true, or a database of its own"
    )]
    Taken {
        /// The other node.
        id: String,
    },
    /// Another process runs as this node.
    #[error(
        "another process runs as this node, {id}: [store] path is a copy of the other's, and the audit log would lose \
         entries; end the other process, or begin with an empty [store] path"
    )]
    Twin {
        /// This node.
        id: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The nodes, as this one sees them.
pub struct Members {
    table: Table<String, NodeRecord>,
    id: String,
    /// Tells this process from others that run as the same node, where its state was copied.
    process: u64,
    sharing: Sharing,
    clock: Arc<dyn Clock>,
    view: Mutex<View>,
}

#[derive(Default)]
struct View {
    seen: BTreeMap<String, Seen>,
    beat: u64,
    /// When this node last changed its row.
    told: Option<Duration>,
    /// Since when it has done so without a pause of [`AWAY_AFTER`].
    telling_since: Option<Duration>,
    /// As of when all that it keeps in memory is what all nodes wrote.
    followed: Option<Duration>,
    /// At how many beats in a row this node's row was another process's, and when it was so for long enough.
    twin_beats: u32,
    twin_seen: Option<Duration>,
}

/// A row, and when it last changed.
struct Seen {
    record: NodeRecord,
    changed: Duration,
}

impl Members {
    /// Returns the nodes of a store's deployment as the node of this name sees them: nobody yet.
    pub fn new(store: &Store, id: String, sharing: Sharing, clock: Arc<dyn Clock>) -> Self {
        // Of an identifier the last 64 bits are drawn by chance.
        let process = UlidSource::default().next(clock.now().as_millisecond()).0 as u64;
        Self { table: store.table(TABLE), id, process, sharing, clock, view: Mutex::default() }
    }

    /// Waits until it is clear whether this node may use the database: at once where no other node was ever there and
    /// this one has ended in order, and no longer than [`AWAY_AFTER`] for each of the two. Blocks.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub fn claim(&self) -> Result<(), ClaimError> {
        self.refuse_twin()?;
        let first = self.others()?;
        let opposes = |record: &NodeRecord| self.sharing == Sharing::Alone || record.is_alone;
        let rivals: BTreeMap<String, NodeRecord> =
            first.into_iter().filter(|(_, record)| opposes(record)).collect();
        if rivals.is_empty() {
            self.begin();
            return Ok(());
        }
        let until = self.clock.monotonic() + AWAY_AFTER;
        while self.clock.monotonic() < until {
            std::thread::sleep(CLAIM_STEP);
            let lives = |(id, record): &(String, NodeRecord)| {
                opposes(record) && rivals.get(id).is_none_or(|before| before.beat != record.beat)
            };
            if let Some((id, _)) = self.others()?.into_iter().find(lives) {
                return Err(ClaimError::Taken { id });
            }
        }
        // They ended without a word.
        rivals.keys().try_for_each(|id| self.table.delete(id))?;
        self.begin();
        Ok(())
    }

    /// Waits for a sign of life of another process that runs as this node.
    fn refuse_twin(&self) -> Result<(), ClaimError> {
        let Some(first) = self.table.get(&self.id)?.filter(|row| self.is_twins(row)) else { return Ok(()) };
        let until = self.clock.monotonic() + TWIN_AFTER;
        while self.clock.monotonic() < until {
            std::thread::sleep(CLAIM_STEP);
            let row = self.table.get(&self.id)?;
            if row.is_some_and(|row| self.is_twins(&row) && row.beat != first.beat) {
                return Err(ClaimError::Twin { id: self.id.clone() });
            }
        }
        Ok(())
    }

    fn is_twins(&self, row: &NodeRecord) -> bool {
        row.process.is_some_and(|process| process != self.process)
    }

    /// Counts this node as in touch from now on: what it keeps in memory is read from here on.
    fn begin(&self) {
        let now = self.clock.monotonic();
        let mut view = self.view.lock();
        view.tell(now);
        view.followed = Some(now);
    }

    fn others(&self) -> Result<Vec<(String, NodeRecord)>, StoreError> {
        let all = self.table.list(&KeyRange::all(), Order::Ascending, NODES_MAX)?;
        Ok(all.into_iter().filter(|(id, _)| *id != self.id).collect())
    }

    /// Changes this node's row and looks at all of them. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn beat(&self, facts: NodeFacts) -> Result<(), StoreError> {
        let begun = self.clock.monotonic();
        let beat = self.view.lock().beat + 1;
        let record = NodeRecord {
            address: facts.address,
            release: facts.release,
            revision: facts.revision,
            is_healthy: facts.is_healthy,
            audit: facts.audit,
            // A process that begins anew must not repeat what was seen of the one before it.
            beat: beat ^ (self.clock.now().as_millisecond() as u64) << 20,
            at: self.clock.now(),
            is_alone: self.sharing == Sharing::Alone,
            process: Some(self.process),
        };
        let is_twins = self.table.get(&self.id)?.is_some_and(|row| self.is_twins(&row));
        let mut batch = Batch::default();
        self.table.put_in(&mut batch, &self.id, &record)?;
        batch.quietly();
        self.table.store().commit(&batch)?;
        let all = self.table.list(&KeyRange::all(), Order::Ascending, NODES_MAX)?;
        let mut view = self.view.lock();
        view.beat = beat;
        view.tell(begun);
        view.see_twin(is_twins, begun);
        view.see(all, self.clock.monotonic());
        let gone = view.forgotten(self.clock.monotonic());
        drop(view);
        gone.iter().try_for_each(|id| self.table.delete(id))
    }

    /// Beats until `shutdown` resolves, and takes the row away then.
    pub async fn run(
        self: Arc<Self>,
        facts: impl Fn() -> NodeFacts + Send + Sync + 'static,
        shutdown: impl Future<Output = ()>,
    ) {
        let (mut shutdown, facts) = (pin!(shutdown), Arc::new(facts));
        let mut tick = tokio::time::interval(BEAT_EVERY);
        let (mut was_told, mut had_twin) = (true, false);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                _ = tick.tick() => {}
            }
            let (members, facts) = (Arc::clone(&self), Arc::clone(&facts));
            let told = tokio::task::spawn_blocking(move || members.beat(facts())).await;
            match &told {
                Ok(Ok(())) if !was_told => tracing::info!("the other nodes are told of this one again"),
                Ok(Err(error)) if was_told => {
                    tracing::warn!(%error, "the other nodes cannot be told of this one");
                }
                Ok(_) => {}
                Err(_) => tracing::error!("telling the other nodes panicked"),
            }
            was_told = matches!(told, Ok(Ok(())));
            match (had_twin, self.has_twin()) {
                (false, true) => tracing::error!(
                    id = self.id,
                    "another process runs as this node: its [store] path is a copy; end one of the two. Until then the \
                     audit log is not shipped"
                ),
                (true, false) => tracing::info!("no other process runs as this node any more"),
                _ => {}
            }
            had_twin = self.has_twin();
        }
        let left = tokio::task::spawn_blocking(move || self.table.delete(&self.id)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::warn!("the other nodes could not be told that this one ends");
        }
    }

    /// Returns this node's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Tells whether this node was heard lately, and hears the others: whoever is not must not count on what it holds.
    pub fn is_in_touch(&self) -> bool {
        self.is_lately(self.view.lock().told) && self.keeps_up()
    }

    /// Tells whether another process runs as this node, or did lately: its state was copied.
    pub fn has_twin(&self) -> bool {
        self.is_lately(self.view.lock().twin_seen)
    }

    /// Tells whether what this node keeps in memory is, or lately was, what all nodes wrote.
    pub fn keeps_up(&self) -> bool {
        self.is_lately(self.view.lock().followed)
    }

    /// Tells whether this node reaches the others, and has not been able for long to follow what they write: it knows less
    /// than they do. One that reaches nobody may know as much as anybody.
    pub fn has_lost_track(&self) -> bool {
        let (told, since, followed) = {
            let view = self.view.lock();
            (view.told, view.telling_since, view.followed)
        };
        self.is_lately(told) && !self.is_lately(since) && !self.is_lately(followed)
    }

    fn is_lately(&self, at: Option<Duration>) -> bool {
        at.is_some_and(|at| self.clock.monotonic().saturating_sub(at) < AWAY_AFTER)
    }

    /// Returns the moment at which a look at what others wrote begins.
    pub(super) fn moment(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Notes that all that is kept in memory is as it was written at a moment.
    pub(super) fn followed(&self, moment: Duration) {
        self.view.lock().followed = Some(moment);
    }

    /// Returns every node that was seen lately, by name.
    pub fn nodes(&self) -> Vec<Node> {
        let now = self.clock.monotonic();
        let view = self.view.lock();
        let node = |(id, seen): (&String, &Seen)| {
            let silent = now.saturating_sub(seen.changed);
            let NodeRecord { address, release, revision, is_healthy, audit, at, .. } = seen.record.clone();
            Node {
                id: id.clone(),
                facts: NodeFacts { address, release, revision, is_healthy, audit },
                at,
                silent_ms: millis(silent),
                is_there: silent < AWAY_AFTER,
            }
        };
        view.seen.iter().map(node).collect()
    }
}

impl View {
    fn tell(&mut self, now: Duration) {
        if self.told.is_none_or(|before| now.saturating_sub(before) >= AWAY_AFTER) {
            self.telling_since = Some(now);
        }
        self.told = Some(now);
    }

    /// Notes whether the row was another process's. What it was before the first beat may be one's that has ended.
    fn see_twin(&mut self, is_twins: bool, now: Duration) {
        self.twin_beats = if is_twins && self.beat > 1 { self.twin_beats + 1 } else { 0 };
        if self.twin_beats >= TWIN_BEATS {
            self.twin_seen = Some(now);
        }
    }

    fn see(&mut self, all: Vec<(String, NodeRecord)>, now: Duration) {
        let mut before = std::mem::take(&mut self.seen);
        for (id, record) in all {
            let known = before.remove(&id).filter(|seen| seen.record.beat == record.beat);
            let changed = known.map_or(now, |seen| seen.changed);
            self.seen.insert(id, Seen { record, changed });
        }
    }

    fn forgotten(&self, now: Duration) -> Vec<String> {
        let gone = self.seen.iter().filter(|(_, seen)| now.saturating_sub(seen.changed) > FORGOTTEN_AFTER);
        gone.map(|(id, _)| id.clone()).collect()
    }
}
