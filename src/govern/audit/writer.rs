//! The one writer: takes what is queued, writes it as a group, tells the waiting, and looks after the disk.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::telemetry::metrics::Metrics;

use super::journal::Journal;
use super::recorder::Health;
use super::recorder::Queued;
use super::recorder::RecordError;
use super::recorder::State;
use super::recorder::Trouble;
use super::sealing::Sealing;
use super::space::Space;
use super::timing::ClockWatch;

/// The most events one sync is shared by.
const GROUP_EVENTS_MAX: usize = 1024;

/// How long events that nobody waits for may gather; a crash loses at most these and what is queued.
const GATHER: Duration = Duration::from_millis(50);
/// How often it is looked whether somebody waits after all, or the group is full.
const GATHER_STEP: Duration = Duration::from_millis(10);
/// How often the disk is looked at, and a failing one tried again.
const TICK: Duration = Duration::from_secs(1);

/// The writer ended with events that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// Buffered events were lost at the end because the disk still failed.
    #[error("{0} buffered audit events could not be written before the end")]
    Lost(usize),
    /// The writer panicked; what was in its hands is lost.
    #[error("the audit writer failed")]
    Panicked,
}

/// Writes the log; see [`Writer::run`].
pub struct Writer {
    pub(super) queue: mpsc::Receiver<Queued>,
    pub(super) sealing: Sealing,
    pub(super) hand: Hand,
}

/// What a turn needs; travels to the blocking thread and back.
pub(super) struct Hand {
    pub(super) journal: Journal,
    pub(super) space: Space,
    pub(super) state: Arc<State>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) segment_age_max: Duration,
    /// Buffered events that a failing disk did not take yet; they come first.
    pub(super) backlog: Vec<Queued>,
    pub(super) checked_at: Option<Duration>,
    pub(super) watch: ClockWatch,
}

impl Writer {
    /// Writes until `shutdown` resolves and nothing waits any more.
    ///
    /// # Errors
    /// When events that were accepted into the buffer had to be given up.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), WriterError> {
        let Self { mut queue, mut sealing, mut hand } = self;
        let mut shutdown = pin!(shutdown);
        let mut tick = tokio::time::interval(TICK);
        let (mut stopping, mut has_taken_all, mut has_sealed_all) = (false, false, false);
        while !(has_taken_all && has_sealed_all) {
            let mut group = Vec::new();
            let takes = hand.backlog.is_empty() || stopping;
            tokio::select! {
                biased;
                () = &mut shutdown, if !stopping => {
                    queue.close();
                    sealing.close();
                    stopping = true;
                    continue;
                }
                sealed = sealing.next(), if takes && !has_sealed_all => match sealed {
                    // However many come that way, the others go with them.
                    Some(sealed) => group = with_queued(sealed, &mut queue),
                    None => has_sealed_all = true,
                },
                taken = queue.recv_many(&mut group, GROUP_EVENTS_MAX), if takes && !has_taken_all => {
                    has_taken_all = taken == 0;
                }
                _ = tick.tick() => {}
            }
            if !stopping && !group.is_empty() && group.iter().all(|queued| queued.done.is_none()) {
                gather(&mut queue, &mut group).await;
            }
            hand.metrics.audit_queue(queue.len() + sealing.len());
            hand = turn(hand, group).await?;
        }
        hand = turn(hand, Vec::new()).await?;
        hand.journal.log().is_over.store(true, Ordering::Release);
        match hand.backlog.len() {
            0 => Ok(()),
            lost => Err(WriterError::Lost(lost)),
        }
    }
}

/// Returns a group with what is in the queue at the moment, up to a group of its own.
fn with_queued(mut group: Vec<Queued>, queue: &mut mpsc::Receiver<Queued>) -> Vec<Queued> {
    group.extend(std::iter::from_fn(|| queue.try_recv().ok()).take(GROUP_EVENTS_MAX));
    group
}

/// Lets more events come before the disk is asked, where nobody waits for it: one sync serves them all.
async fn gather(queue: &mut mpsc::Receiver<Queued>, group: &mut Vec<Queued>) {
    for _ in 0..GATHER.as_millis() / GATHER_STEP.as_millis() {
        tokio::time::sleep(GATHER_STEP).await;
        while group.len() < GROUP_EVENTS_MAX {
            let Ok(queued) = queue.try_recv() else { break };
            group.push(queued);
        }
        if group.len() >= GROUP_EVENTS_MAX || group.iter().any(|queued| queued.done.is_some()) {
            return;
        }
    }
}

async fn turn(mut hand: Hand, group: Vec<Queued>) -> Result<Hand, WriterError> {
    let turned = tokio::task::spawn_blocking(move || {
        hand.turn(group);
        hand
    });
    turned.await.map_err(|_| WriterError::Panicked)
}

impl Hand {
    /// Writes the backlog and the group, then looks after the disk. Blocks.
    pub(super) fn turn(&mut self, group: Vec<Queued>) {
        let mut due = std::mem::take(&mut self.backlog);
        due.extend(group);
        let mut failed = None;
        if !due.is_empty() {
            let begun = self.clock.monotonic();
            failed = self.write(due).err().map(|error| trouble(&error));
            let took = self.clock.monotonic().saturating_sub(begun);
            self.metrics.recorded(took);
        }
        let ahead_ms = self.journal.ahead_ms(self.clock.now().as_millisecond());
        self.watch.look(&*self.clock, ahead_ms, &self.state.timing);
        self.look_after_the_disk(failed);
    }

    fn write(&mut self, due: Vec<Queued>) -> io::Result<()> {
        let outcome = self.append(&due).or_else(|error| {
            // A full disk gets the reserve; whatever failed, the group goes to a fresh segment, once.
            if is_full(&error) && !self.space.release() {
                return Err(error);
            }
            tracing::warn!(%error, "the audit journal failed, a new segment is begun");
            self.append(&due)
        });
        match outcome {
            Ok(ids) => {
                self.metrics.audit_taken(ids.len() as u64);
                for (queued, id) in due.into_iter().zip(ids) {
                    // Whoever gave up waiting has been told that the event may still be recorded.
                    queued.done.map(|done| done.send(Ok(id)));
                }
                Ok(())
            }
            Err(error) => {
                let failed = RecordError::Unavailable(trouble(&error));
                for queued in due {
                    match queued.done {
                        Some(done) => drop(done.send(Err(failed.clone()))),
                        None => self.backlog.push(queued),
                    }
                }
                tracing::error!(%error, held = self.backlog.len(), "the audit journal cannot be written");
                Err(error)
            }
        }
    }

    fn append(&mut self, due: &[Queued]) -> io::Result<Vec<crate::id::Ulid>> {
        // Nothing is recorded about anybody whose key could be lost.
        self.journal.log().keyring.flush()?;
        let now = self.clock.now().as_millisecond();
        self.journal.append(due.iter().map(|queued| queued.body.as_slice()), now)
    }

    /// Checks the room on the disk, at most once a tick, and sets the health that follows.
    fn look_after_the_disk(&mut self, failed: Option<Trouble>) {
        let now = self.clock.monotonic();
        if let Some(trouble) = failed {
            self.state.set(Health::Degraded(trouble));
            self.checked_at = Some(now);
            return;
        }
        if self.checked_at.is_some_and(|last| now.saturating_sub(last) < TICK) && self.was_writable() {
            return;
        }
        self.checked_at = Some(now);
        let health = self.check().unwrap_or_else(|error| {
            tracing::warn!(%error, "the disk of the audit journal cannot be looked after");
            Health::Degraded(trouble(&error))
        });
        self.state.set(health);
    }

    fn was_writable(&self) -> bool {
        self.state.trouble().is_none_or(Trouble::writable)
    }

    fn check(&mut self) -> io::Result<Health> {
        self.space.restore()?;
        let now = self.clock.now().as_millisecond();
        let age_ms = now.saturating_sub(self.journal.segment_made_unix_ms() as i64);
        let old = u128::try_from(age_ms).is_ok_and(|age| age >= self.segment_age_max.as_millis());
        if old || !self.was_writable() {
            // Also the proof that a disk which failed can be written again.
            self.journal.rotate(now)?;
        }
        Ok(match self.space.below_mark()? {
            Some(free_bytes) => Health::Degraded(Trouble::DiskLow { free_bytes }),
            None => Health::Sound,
        })
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.state.set(Health::Degraded(Trouble::Stopped));
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn trouble(error: &io::Error) -> Trouble {
    if is_full(error) { Trouble::DiskFull } else { Trouble::DiskFailed }
}
