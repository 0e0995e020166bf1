//! Builds the log's parts and holds its reading side.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use tokio::sync::mpsc;

use crate::access::keyring::Keyring;
use crate::access::keyring::KeyringError;
use crate::clock::Clock;
use crate::clock::sure::SureClock;
use crate::id::Ulid;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;

use super::chain::ChainCheck;
use super::chain::ChainFault;
use super::chain::Hash;
use super::dropping::Dropping;
use super::event::Entry;
use super::export::Export;
use super::index::Index;
use super::index::QueryError;
use super::journal::Journal;
use super::journal::JournalError;
use super::journal::Repair;
use super::log::Log;
use super::log::ReadError;
use super::query::Page;
use super::query::Query;
use super::recorder::Durability;
use super::recorder::Queues;
use super::recorder::Recorder;
use super::recorder::State;
use super::retention::Retention;
use super::sealing::Sealing;
use super::seen::Seen;
use super::shipping::HasTwin;
use super::shipping::Shipping;
use super::space::Space;
use super::stored;
use super::tail::Following;
use super::tail::Tail;
use super::timing::ClockWatch;
use super::writer::Hand;
use super::writer::Writer;

/// How often the index follows the journal and old segments are looked for.
const MAINTENANCE: Duration = Duration::from_secs(1);

/// The name of the file of keys, where nobody says otherwise.
const KEYS_FILE: &str = "subjects.keys";

/// Where and how the log is kept.
#[derive(Clone, Debug)]
pub struct AuditConfig {
    /// The journal's own directory.
    pub directory: PathBuf,
    /// The file of the keys that names are sealed under.
    pub keys: PathBuf,
    /// When an event counts as recorded.
    pub durability: Durability,
    /// How many events may wait to be written.
    pub queue_events_max: usize,
    /// How long a caller waits for the disk before it is told that the log failed.
    pub wait_max: Duration,
    /// How large a segment grows before the next is begun, in bytes.
    pub segment_bytes_max: u64,
    /// How old a segment grows before the next is begun; retention drops whole segments.
    pub segment_age_max: Duration,
    /// The size of the file that is given up when the disk is full, in bytes.
    pub reserve_bytes: u64,
    /// Below this many free bytes the log is degraded.
    pub low_water_bytes: u64,
    /// Entries older than this are dropped; `None` keeps them for ever.
    pub retention_age: Option<Duration>,
    /// Oldest entries are dropped while the journal is larger than this, in bytes; `None` sets no limit.
    pub retention_bytes: Option<u64>,
}

/// The parts of a log that was opened.
pub struct Opened {
    /// Takes events.
    pub recorder: Recorder,
    /// Writes them; must be run.
    pub writer: Writer,
    /// Answers questions; its maintenance must be run.
    pub log: AuditLog,
    /// The keys of the names in it.
    pub keyring: Arc<Keyring>,
    /// What was mended, if the last process died while it wrote.
    pub repair: Option<Repair>,
}

/// The reading side; cheap to clone.
#[derive(Clone)]
pub struct AuditLog {
    pub(super) log: Arc<Log>,
    pub(super) index: Arc<Index>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) retention: Retention,
    /// Whose entries are not dropped.
    pub(super) kept: Arc<RwLock<Vec<String>>>,
    /// What is shared with other nodes; `None`: nothing is.
    pub(super) shipping: Option<Arc<Shipping>>,
    pub(super) dropping: Dropping,
    /// Says how old entries are that may be dropped for it.
    pub(super) sure: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
}

/// What the log knows of somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// How many entries are about them, or by them.
    pub events: u64,
    /// In how many of these something was found.
    pub with_findings: u64,
    /// When the oldest of them was recorded, and when the newest; `None`: there is none.
    pub recorded: Option<(Timestamp, Timestamp)>,
    /// The other nodes that have entries of the first release, which are not counted: they alone answer with them.
    pub unasked: Vec<String>,
}

/// Figures for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// How many entries there are.
    pub entry_count: u64,
    /// The hash of the newest one.
    pub last_hash: Option<Hash>,
    /// The size of the journal, in bytes.
    pub size_bytes: u64,
    /// How long entries are kept; `None`: for ever.
    pub retention_age: Option<Duration>,
    /// The most bytes of the journal, past which its oldest segments go; `None`: any number.
    pub retention_bytes: Option<u64>,
    /// When the oldest entry was recorded.
    pub oldest: Option<Timestamp>,
}

/// Why the log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] QueryError),
    /// The keys of names failed.
    #[error(transparent)]
    Keys(#[from] KeyringError),
}

/// Why the log could not be vouched for.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The chain is broken.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl AuditConfig {
    /// Returns the shipped settings for a journal in `directory`: wait for the disk, 64 MiB segments of at
    /// most a day, a reserve of 64 MiB, an alarm at 256 MiB, entries kept for a year.
    pub fn at(directory: PathBuf) -> Self {
        Self {
            keys: directory.join(KEYS_FILE),
            directory,
            durability: Durability::Wait,
            queue_events_max: 8192,
            wait_max: Duration::from_secs(5),
            segment_bytes_max: 64 << 20,
            segment_age_max: Duration::from_secs(86_400),
            reserve_bytes: 64 << 20,
            low_water_bytes: 256 << 20,
            retention_age: Some(Duration::from_secs(365 * 86_400)),
            retention_bytes: None,
        }
    }
}

/// Opens the log. Blocks; a torn end is mended.
///
/// # Errors
/// When another process writes to the journal, or journal or index cannot be read.
pub fn open(
    config: AuditConfig,
    store: Store,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<Opened, OpenError> {
    let keyring = Arc::new(Keyring::open(&config.keys)?.by(Arc::clone(&clock)));
    open_with(config, keyring, store, clock, metrics)
}

/// Opens the log with the keys of names that are shared with other nodes, instead of those of a file.
///
/// # Errors
/// As [`open`].
pub fn open_with(
    config: AuditConfig,
    keyring: Arc<Keyring>,
    store: Store,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<Opened, OpenError> {
    let now = clock.now().as_millisecond();
    let (journal, repair) =
        Journal::open(&config.directory, Arc::clone(&keyring), config.segment_bytes_max, now)?;
    let log = journal.log();
    let index = Arc::new(Index::open(store, log.clone())?);
    index.note_damage(journal.damage());
    let (sealed, queue) = mpsc::channel(config.queue_events_max.max(1));
    let (newcomers, unsealed) = mpsc::channel(config.queue_events_max.max(1));
    let state = Arc::new(State::new());
    let waits = (config.durability, config.wait_max);
    let recorder = Recorder::new(
        Queues { sealed, newcomers },
        state.clone(),
        waits,
        Arc::clone(&keyring),
        metrics.clone(),
    );
    let hand = Hand {
        journal,
        space: Space::new(&config.directory, config.reserve_bytes, config.low_water_bytes),
        state,
        clock: clock.clone(),
        metrics: Arc::clone(&metrics),
        segment_age_max: config.segment_age_max,
        backlog: Vec::new(),
        checked_at: None,
        watch: ClockWatch::default(),
    };
    let retention = Retention { age: config.retention_age, bytes: config.retention_bytes };
    let kept = Arc::default();
    let (shipping, dropping) = (None, Dropping::default());
    let sure = Arc::new(SureClock::since(Arc::clone(&clock), log.last_written()));
    let log = AuditLog { log, index, clock, retention, kept, shipping, dropping, sure, metrics };
    let sealing = Sealing::new(unsealed, Arc::clone(&keyring));
    Ok(Opened { recorder, writer: Writer { queue, sealing, hand }, log, keyring, repair })
}

impl AuditLog {
    /// Returns the same log, which drops what is old by another clock.
    pub fn aged_by(self, sure: Arc<dyn Clock>) -> Self {
        Self { sure, ..self }
    }

    /// Returns when the last entry was written that there is, as its id tells.
    pub fn last_written(&self) -> Option<Timestamp> {
        self.log.last_written()
    }

    /// Lets the log of a node be one of those that are kept in common, and answer for all of them, where the store is
    /// one that nodes share. Nothing is shipped while `has_twin` says that another process runs as this node.
    pub fn shared(mut self, node: String, store: &Store, metrics: Arc<Metrics>, has_twin: HasTwin) -> Self {
        let Some(archive) = store.archive() else { return self };
        let parts = (Arc::clone(&self.log), Arc::clone(&self.index), Arc::clone(&self.clock));
        self.shipping = Some(Arc::new(Shipping::new(node, (store, archive), parts, metrics, has_twin)));
        self
    }

    /// Returns what ships the journal, which must be run; `None`: nothing is shared.
    pub fn shipping(&self) -> Option<&Arc<Shipping>> {
        self.shipping.as_ref()
    }

    /// Answers a query, newest first, from everything that is safe on disk by now, and from what other nodes shipped.
    ///
    /// # Errors
    /// When the limit is out of range, the disk fails, or the database does and one other node is asked for.
    pub async fn query(&self, query: Query) -> Result<Page, QueryError> {
        self.blocking(move |log| match &log.shipping {
            Some(shipping) => shipping.query(&query),
            None => log.index.query(&query),
        })
        .await
    }

    /// Returns a live subscriber that begins after the entry `after`, or with the next new entry.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn tail(&self, after: Option<Ulid>) -> Result<Tail, QueryError> {
        let place = self.blocking(move |log| match after {
            Some(id) => log.index.position_after(id),
            None => Ok(log.log.committed()),
        });
        Ok(Tail::new(self.log.clone(), place.await?))
    }

    /// Returns a live subscriber to the entries of all nodes, or of one of them, that begins behind what it has seen, or
    /// with what is recorded from now on.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn follow(&self, seen: Option<Seen>, node: Option<String>) -> Result<Following, QueryError> {
        self.blocking(move |log| {
            let tail = |after| {
                let place = log.index.position_after(after)?;
                Ok::<_, QueryError>(Tail::behind(log.log.clone(), place, after)?)
            };
            let Some(shipping) = &log.shipping else {
                let (own, seen) = match seen {
                    Some(seen) => (tail(seen.newest())?, seen),
                    None => {
                        let (end, newest) = log.log.committed_and_newest();
                        (Tail::new(log.log.clone(), end), Seen::up_to(newest))
                    }
                };
                return Ok(Following::new(Some(own), None, seen));
            };
            let seen = match seen {
                Some(seen) => seen,
                None => shipping.seen_now(),
            };
            let is_wanted = node.as_deref().is_none_or(|node| node == &**shipping.node());
            let own = is_wanted.then(|| tail(seen.of(shipping.node()))).transpose()?;
            let others = shipping.others(seen.clone(), node);
            Ok(Following::new(own, Some((Arc::clone(shipping.node()), others)), seen))
        })
        .await
    }

    /// Begins an export of every entry that holds to a query, its limit and its cursor left aside.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn export(&self, query: Query) -> Result<Export, QueryError> {
        self.blocking(move |log| match &log.shipping {
            Some(shipping) => shipping.export(&query),
            None => Export::begin(Arc::clone(&log.log), &log.index, &query, None),
        })
        .await
    }

    /// Returns the figures of this node's log.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn status(&self) -> Result<LogStatus, QueryError> {
        self.ensure_current().await?;
        let all = Query { limit: 1, ..Query::default() };
        let asked = all.clone();
        let newest = self.blocking(move |log| log.index.query(&asked)).await?;
        let oldest = self.blocking(move |log| log.index.oldest(&all)).await?;
        Ok(LogStatus {
            entry_count: newest.total,
            last_hash: newest.entries.first().map(|entry| entry.hash),
            size_bytes: self.log.size_bytes(),
            retention_age: self.retention.age,
            retention_bytes: self.retention.bytes,
            oldest: oldest.map(|id| id.timestamp()),
        })
    }

    /// Returns when the oldest entry was recorded that is kept here, or that any node has shipped; `None`: there is
    /// none. What cannot be read may be as old as it likes. Blocks.
    ///
    /// # Errors
    /// When the disk fails, or the database that nodes share; and while the index is built anew.
    pub fn oldest(&self) -> Result<Option<Timestamp>, QueryError> {
        self.index.ensure_current()?;
        if self.is_damaged() {
            return Ok(Some(Timestamp::UNIX_EPOCH));
        }
        let own = self.index.earliest()?;
        let shipped = self.shipping.as_ref().map(|shipping| shipping.oldest()).transpose()?.flatten();
        Ok(own.into_iter().chain(shipped).min())
    }

    /// Returns what is known of somebody; `None`: nothing. Blocks.
    ///
    /// # Errors
    /// When the disk fails, or the database that nodes share.
    pub fn about(&self, name: &str) -> Result<Option<About>, QueryError> {
        self.index.ensure_current()?;
        let query = Query { subject: Some(name.to_owned()), limit: 1, ..Query::default() };
        if let Some(shipping) = &self.shipping {
            return shipping.about(&query);
        }
        let newest = self.index.query(&query)?;
        let oldest = self.index.oldest(&query)?;
        let Some((last, first)) = newest.entries.first().zip(oldest) else { return Ok(None) };
        let with_findings = self.index.query(&Query { is_alert: true, ..query })?.total;
        Ok(Some(About {
            events: newest.total,
            with_findings,
            recorded: Some((first.timestamp(), last.timestamp())),
            unasked: Vec::new(),
        }))
    }

    /// Returns the newest entry's id; zero: there never was one.
    pub fn newest(&self) -> Ulid {
        *self.log.newest.read()
    }

    /// Comes back once every entry recorded by now can be found.
    ///
    /// # Errors
    /// The index is being built anew, or the disk fails.
    pub(super) async fn ensure_current(&self) -> Result<(), QueryError> {
        self.blocking(|log| log.index.ensure_current()).await
    }

    /// Says whose entries are not dropped, however old they are and however large the journal is.
    pub fn keep(&self, names: Vec<String>) {
        *self.kept.write() = names;
    }

    /// Drops what was shipped by any node and is past its age, but for the entries that are [kept](AuditLog::keep), as
    /// long as tables are at the versions they are expected at; returns how many. Blocks.
    ///
    /// # Errors
    /// When the database fails, or a table has another version.
    pub fn drop_shipped(&self, expected: &BTreeMap<String, u64>) -> Result<u64, QueryError> {
        let Some((shipping, age)) = self.shipping.as_ref().zip(self.retention.age) else { return Ok(0) };
        let kept = self.kept.read().clone();
        shipping.drop_old((age, self.sure.now()), &kept, expected)
    }

    /// Lets entries that an older release has shipped be found by action, route, policy and detector; tells whether there
    /// may be more to do at once. Blocks.
    ///
    /// # Errors
    /// When the database fails.
    pub fn sort_in_shipped(&self) -> Result<bool, QueryError> {
        self.shipping.as_ref().map_or(Ok(false), |shipping| shipping.sort_in())
    }

    /// Goes through the whole journal, oldest entry first, and checks every hash and link. Blocks.
    ///
    /// # Errors
    /// The first fault.
    pub fn verify(&self) -> Result<ChainCheck, VerifyError> {
        let start = self.log.start();
        let mut check = match self.log.hash_before(start.segment)? {
            Some(previous) => ChainCheck::after(previous),
            None => ChainCheck::default(),
        };
        let mut reader = self.log.reader(start);
        while let Some((at, payload)) = reader.next()? {
            let damaged = |_| ReadError::Damaged { segment: at.segment, offset: at.offset };
            let (previous, hash, canonical) = stored::split(payload).map_err(damaged)?;
            let entry = stored::entry(payload, &self.log.keyring).map_err(damaged)?;
            check.push(entry.id, previous, hash, canonical)?;
        }
        Ok(check)
    }

    /// Lets the index follow the journal and drops what is past its retention, until `shutdown` resolves.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut tick = tokio::time::interval(MAINTENANCE);
        let mut is_all = true;
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = std::future::ready(()), if !is_all => {}
                _ = tick.tick() => {}
            }
            is_all = self.blocking(Self::maintain).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the audit index could not be maintained");
                true
            });
        }
    }

    /// Tells whether some of the journal was found damaged: its entries are in no answer.
    pub fn is_damaged(&self) -> bool {
        self.index.damaged_bytes() > 0
    }

    /// Calls `listener` with every entry that retention drops from now on, before it goes; it must be quick.
    pub fn on_drop(&self, listener: impl Fn(&Entry) + Send + Sync + 'static) {
        self.dropping.subscribe(listener);
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let log = self.clone();
        tokio::task::spawn_blocking(move || work(&log)).await.map_err(|_| QueryError::Interrupted)?
    }
}
