//! One sink at work: reads the log from its place, hands batches over, and moves its place on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::backoff::Backoff;
use super::config::SinkConfig;
use super::cursor::Cursor;
use super::cursor::Cursors;
use super::dead::DeadLetters;
use super::format::Teller;
use super::sink;
use super::sink::Delivery;
use super::sink::ReadSecret;
use super::sink::Sink;
use super::sink::Trouble;
use super::status::SinkState;
use super::status::SinkStatus;
use crate::clock::Clock;
use crate::govern::audit::AuditLog;
use crate::govern::audit::Entry;
use crate::govern::audit::Tail;
use crate::id::Ulid;
use crate::store::Store;
use crate::store::StoreError;
use crate::telemetry::metrics::Metrics;
use crate::tls::CertificateFault;

/// How many of the entries that were sent last are remembered, to be sent again when a connection breaks that
/// acknowledges nothing.
const RECENT_MAX: usize = 50_000;
/// How long a sink waits when the log itself cannot be read.
const LOG_PAUSE: Duration = Duration::from_secs(1);
const REFUSED: &str = "refused by the receiver";

/// What sinks read, keep and tell.
#[derive(Clone)]
pub struct Surroundings {
    /// What is forwarded.
    pub log: AuditLog,
    /// Where places are kept.
    pub store: Store,
    /// Where dead letters lie.
    pub folder: PathBuf,
    /// Reads tokens and signing secrets.
    pub read_secret: ReadSecret,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where deliveries are counted.
    pub metrics: Arc<Metrics>,
    /// The release, as receivers are told.
    pub version: String,
    /// The node's name, as receivers are told.
    pub node: String,
}

/// Why a sink cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Its certificates cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateFault),
    /// Its place cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One sink; must be run.
pub struct Forwarder {
    config: SinkConfig,
    sink: Box<dyn Sink>,
    around: Surroundings,
    cursors: Cursors,
    cursor: Cursor,
    dead: DeadLetters,
    backoff: Backoff,
    status: Arc<SinkStatus>,
    /// The entries sent last, oldest first.
    recent: VecDeque<Ulid>,
    /// The place before the oldest of them.
    before_recent: Option<Ulid>,
    /// How many entries of the batch under way the platform has taken that are not counted yet.
    taken: u64,
    /// Whether the platform is known to take entries: what it refuses then, it refuses for what it is.
    has_proven: bool,
}

/// Whether a batch is done with.
enum Step {
    Done,
    /// The place went back: the log must be read anew from there.
    Rewound,
}

impl Forwarder {
    /// Returns a sink, at the place where it was when it was run last; one that never ran begins with what is
    /// recorded from now on. It tells how it stands by `status`, and that it failed where it cannot be opened.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub(super) fn open(
        config: SinkConfig,
        around: Surroundings,
        status: Arc<SinkStatus>,
    ) -> Result<Self, SinkError> {
        let opened = Self::at_its_place(config, around, Arc::clone(&status));
        opened.inspect_err(|error| status.failed(error.to_string()))
    }

    fn at_its_place(
        config: SinkConfig,
        around: Surroundings,
        status: Arc<SinkStatus>,
    ) -> Result<Self, SinkError> {
        let teller = Teller { version: around.version.clone(), node: around.node.clone() };
        let cursors = Cursors::new(&around.store);
        let cursor = cursors.read(&config.name)?.unwrap_or_default().taken_over();
        // One that failed has failed until it is open.
        status.moved(&cursor);
        status.read_to(cursor.place());
        let sink = sink::open(&config, teller, &around.read_secret, &around.clock)?;
        status.follow(&cursor, SinkState::Idle, None);
        Ok(Self {
            dead: DeadLetters::new(&around.folder, &config.name),
            backoff: Backoff::new(
                Duration::from_millis(config.backoff_min_ms),
                Duration::from_millis(config.backoff_max_ms),
            ),
            before_recent: cursor.place(),
            recent: VecDeque::new(),
            taken: 0,
            has_proven: false,
            config,
            sink,
            around,
            cursors,
            cursor,
            status,
        })
    }

    /// Forwards until `shutdown` resolves. A batch that is under way then is sent again by whoever takes the place over,
    /// and so is what the platform may not have read.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = self.forward() => {}
        }
        self.sink.close().await;
        if let Err(error) = self.save() {
            tracing::warn!(sink = self.config.name, error, "the last figures of a sink could not be kept");
        }
    }

    async fn forward(&mut self) {
        loop {
            let read = match self.tail().await {
                Ok(mut tail) => self.follow(&mut tail).await,
                Err(error) => Err(error),
            };
            if let Err(error) = read {
                tracing::warn!(sink = self.config.name, error, "the audit log cannot be forwarded for now");
                self.status.follow(&self.cursor, SinkState::Retrying, Some(error));
                tokio::time::sleep(LOG_PAUSE).await;
            }
        }
    }

    /// Returns the log from the sink's place on. The place of a sink that never ran is kept before anything
    /// is read, so that nothing recorded from then on is missed.
    async fn tail(&mut self) -> Result<Tail, String> {
        if self.cursor.after.is_none() {
            self.cursor.move_to(self.around.log.newest());
            self.before_recent = self.cursor.place();
            self.save()?;
            self.status.follow(&self.cursor, SinkState::Idle, None);
        }
        self.status.read_to(self.cursor.place());
        self.around.log.tail(self.cursor.place()).await.map_err(|error| error.to_string())
    }

    /// Forwards what a tail gives, until the place goes back.
    async fn follow(&mut self, tail: &mut Tail) -> Result<(), String> {
        loop {
            let entries = tokio::select! {
                biased;
                entries = tail.next_batch() => entries.map_err(|error| error.to_string())?,
                never = self.sink.idle() => match never {},
            };
            self.status.read_to(entries.last().map(|entry| entry.id));
            let passing: Vec<&Entry> =
                entries.iter().filter(|entry| self.config.filter.lets_through(entry)).collect();
            for batch in passing.chunks(self.config.batch_entries_max.max(1)) {
                if let Step::Rewound = self.hand_over(batch).await? {
                    return Ok(());
                }
            }
            if let Some(last) = entries.last() {
                self.moved_to(last.id)?;
            }
        }
    }

    /// Hands a batch over, and does not come back before the platform has all that it will ever have of it, or the log is
    /// to be read anew.
    async fn hand_over(&mut self, batch: &[&Entry]) -> Result<Step, String> {
        self.taken = 0;
        // Parts of the batch that are still to be handed over, the next one last.
        let mut parts: Vec<Vec<&Entry>> = vec![batch.to_vec()];
        let (mut refused, mut doubtful): (Vec<&Entry>, Vec<&Entry>) = Default::default();
        loop {
            let Some(part) = parts.pop() else {
                if !self.has_proven || doubtful.is_empty() {
                    break;
                }
                // It takes others by now: what it refused before that is tried once more.
                parts.extend(doubtful.drain(..).map(|entry| vec![entry]));
                continue;
            };
            match self.sink.deliver(&part).await {
                Ok(Delivery::Taken) => self.taken(&part)?,
                Ok(Delivery::Partly { refused: places, again, because }) => {
                    let pick = |places: &[usize]| -> Vec<&Entry> {
                        places.iter().filter_map(|at| part.get(*at).copied()).collect()
                    };
                    let (never, again) = (pick(&places), pick(&again));
                    let open: Vec<Ulid> = never.iter().chain(&again).map(|entry| entry.id).collect();
                    let is_done = |entry: &&Entry| !open.contains(&entry.id);
                    self.taken(&part.iter().copied().filter(is_done).collect::<Vec<_>>())?;
                    match self.has_proven {
                        true => refused.extend(never),
                        false => doubtful.extend(never),
                    }
                    if !again.is_empty() {
                        if self.wait_after(&because).await? {
                            return Ok(Step::Rewound);
                        }
                        parts.push(again);
                    }
                }
                // The guilty ones are found by halving.
                Err(Trouble::Batch(_)) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second.to_vec(), first.to_vec()]);
                }
                Err(Trouble::Batch(_)) if self.has_proven => refused.extend(part),
                Err(Trouble::Batch(_)) => doubtful.extend(part),
                Err(trouble) => {
                    if self.wait_after(&trouble).await? {
                        return Ok(Step::Rewound);
                    }
                    parts.push(part);
                }
            }
        }
        let is_all = batch.len() > 1 && refused.len() == batch.len();
        if is_all || !doubtful.is_empty() {
            self.has_proven = false;
            self.wait_after(&Trouble::All).await?;
            return Ok(Step::Rewound);
        }
        self.give_up(&refused, batch.len())?;
        // Not before: a part that had to wait may be older than one that was taken.
        if let Some(last) = batch.last() {
            self.moved_to(last.id)?;
        }
        Ok(Step::Done)
    }

    /// Gives the refused ones of so many entries up: the platform takes others. Where there is but one, the next one that
    /// is refused alone is not believed.
    fn give_up(&mut self, refused: &[&Entry], entries: usize) -> Result<(), String> {
        self.has_proven &= refused.len() < entries;
        refused.iter().try_for_each(|entry| self.bury(entry))
    }

    /// Counts a failure and waits; tells whether the place went back, because of what is in doubt.
    async fn wait_after(&mut self, trouble: &Trouble) -> Result<bool, String> {
        let asked = match trouble {
            Trouble::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        let in_doubt = self.doubt()?;
        self.failed(trouble, asked).await?;
        Ok(in_doubt)
    }

    /// Moves the place on, and counts what the platform took up to there: only now, for what it took of a batch that is not
    /// done with may be sent again.
    fn moved_to(&mut self, id: Ulid) -> Result<(), String> {
        let taken = std::mem::take(&mut self.taken);
        self.cursor.forwarded += taken;
        self.around.metrics.siem_events(self.config.target.platform(), "forwarded", taken);
        self.cursor.move_to(id);
        self.save()?;
        self.status.moved(&self.cursor);
        Ok(())
    }

    fn taken(&mut self, entries: &[&Entry]) -> Result<(), String> {
        if entries.is_empty() {
            return Ok(());
        }
        self.backoff.reset();
        self.has_proven = true;
        self.recent.extend(entries.iter().map(|entry| entry.id));
        while self.recent.len() > RECENT_MAX {
            self.before_recent = self.recent.pop_front();
        }
        let counted = self.cursor.counted();
        self.taken += entries.iter().filter(|entry| Some(entry.id) > counted).count() as u64;
        self.cursor.last_forward_ms = Some(self.around.clock.now().as_millisecond());
        self.save()?;
        self.status.follow(&self.cursor, SinkState::Connected, None);
        Ok(())
    }

    /// Gives one entry up, and says so.
    fn bury(&mut self, entry: &Entry) -> Result<(), String> {
        self.cursor.dead += 1;
        self.around.metrics.siem_events(self.config.target.platform(), "dead", 1);
        tracing::error!(sink = self.config.name, entry = %entry.id, "the receiver refuses an audit entry for good");
        if let Err(error) = self.dead.add(entry.id, REFUSED) {
            tracing::error!(sink = self.config.name, %error, "the dead letter could not be written");
        }
        self.save()?;
        self.status.follow(&self.cursor, SinkState::Connected, Some(REFUSED.to_owned()));
        Ok(())
    }

    /// Counts a failure and waits.
    async fn failed(&mut self, trouble: &Trouble, asked: Option<Duration>) -> Result<(), String> {
        self.cursor.errors += 1;
        self.around.metrics.siem_events(self.config.target.platform(), "failed", 1);
        self.save()?;
        self.status.follow(&self.cursor, SinkState::Retrying, Some(trouble.to_string()));
        let wait = self.backoff.next(asked);
        tracing::warn!(sink = self.config.name, %trouble, wait_ms = wait.as_millis() as u64, "audit entries wait");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Puts the place before what is in doubt, and tells whether something is: before the wait that follows, in which the
    /// gateway may be stopped.
    fn doubt(&mut self) -> Result<bool, String> {
        match self.sink.in_doubt() {
            0 => Ok(false),
            entries => self.rewind(entries).map(|()| true),
        }
    }

    /// Puts the place before the last `entries` that were sent.
    fn rewind(&mut self, entries: usize) -> Result<(), String> {
        self.cursor.move_to(self.before_last(entries));
        self.recent.truncate(self.recent.len().saturating_sub(entries));
        self.save()
    }

    /// Returns the place before the last `entries` that were sent.
    fn before_last(&self, entries: usize) -> Ulid {
        let at = self.recent.len().checked_sub(entries + 1);
        at.and_then(|at| self.recent.get(at).copied()).or(self.before_recent).unwrap_or(Ulid(0))
    }

    fn save(&mut self) -> Result<(), String> {
        let missed = self.status.take_missed();
        if missed > 0 {
            self.cursor.missed += missed;
            self.around.metrics.siem_events(self.config.target.platform(), "missed", missed);
            tracing::error!(
                sink = self.config.name,
                missed,
                "audit entries were dropped before they were forwarded"
            );
        }
        let unsettled = self.sink.unsettled();
        self.cursor.settled = (unsettled > 0).then(|| self.before_last(unsettled).to_string());
        self.cursors.write(&self.config.name, &self.cursor).map_err(|error| error.to_string())
    }
}
