//! The front door for events: a bounded queue that never drops anything in silence.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use crate::access::keyring::Keyring;
use crate::access::keyring::stand_in;
use crate::id::Ulid;
use crate::telemetry::metrics::Metrics;

use super::event::AuditEvent;
use super::sealing::Unsealed;
use super::stored;
use super::timing::ClockWarning;
use super::timing::Timing;

/// The most that is written of an event, in bytes.
pub const EVENT_BYTES_MAX: usize = 128 << 10;

/// When an event counts as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once it would survive a power cut.
    Wait,
    /// Once it stands in the queue; a crash may lose what was queued.
    Buffer,
}

/// Why an event was not recorded. The caller's fail mode decides what happens to the traffic.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecordError {
    /// The queue is full: the disk is slower than the traffic. The event is not written later either.
    #[error("the audit queue is full")]
    QueueFull,
    /// The event was taken and not safe on disk in time; it may still become so.
    #[error("the audit log did not answer in time")]
    TimedOut,
    /// The log cannot be written now.
    #[error("the audit log cannot be written: {0}")]
    Unavailable(Trouble),
    /// More would be written of the event than may.
    #[error("the audit event is too large")]
    TooLarge,
}

/// How the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// All is well.
    Sound,
    /// An operator should act; unless the trouble is [`Trouble::DiskLow`], nothing is recorded.
    Degraded(Trouble),
}

/// What ails the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The disk is nearly full; entries are still written.
    #[error("the disk of the audit log has {free_bytes} bytes left")]
    DiskLow {
        /// What is left.
        free_bytes: u64,
    },
    /// The disk is full, the reserve included.
    #[error("the disk of the audit log is full")]
    DiskFull,
    /// The disk failed to write or sync.
    #[error("the disk of the audit log failed")]
    DiskFailed,
    /// The writer has stopped.
    #[error("the audit writer is not running")]
    Stopped,
}

/// Takes events; cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    queues: Queues,
    state: Arc<State>,
    durability: Durability,
    wait_max: Duration,
    keyring: Arc<Keyring>,
    metrics: Arc<Metrics>,
}

/// Where events wait: to be written, and before that for the keys of their names.
#[derive(Clone)]
pub(super) struct Queues {
    pub(super) sealed: mpsc::Sender<Queued>,
    pub(super) newcomers: mpsc::Sender<Unsealed>,
}

/// An event that the log takes.
enum Admitted {
    /// What is written of it.
    Sealed(Vec<u8>),
    /// It names somebody whose key has to be made in the database.
    New(Box<AuditEvent>),
}

/// An event on its way, and whom to tell.
pub(super) struct Queued {
    /// What is written of it, see [`stored::body_with`].
    pub(super) body: Vec<u8>,
    pub(super) done: Option<oneshot::Sender<Result<Ulid, RecordError>>>,
}

/// What the writer lets the recorders know.
pub(super) struct State {
    refusing: AtomicBool,
    health: RwLock<Health>,
    pub(super) timing: Timing,
}

impl Recorder {
    pub(super) fn new(
        queues: Queues,
        state: Arc<State>,
        (durability, wait_max): (Durability, Duration),
        keyring: Arc<Keyring>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { queues, state, durability, wait_max, keyring, metrics }
    }

    /// Records an event with the configured durability.
    ///
    /// # Errors
    /// When the event was not recorded; it is counted then.
    pub async fn record(&self, event: AuditEvent) -> Result<(), RecordError> {
        match self.durability {
            Durability::Wait => self.record_safely(event).await.map(|_| ()),
            Durability::Buffer => self.record_soon(event),
        }
    }

    /// Tells whether events count as recorded only once they would survive a power cut.
    pub fn waits(&self) -> bool {
        self.durability == Durability::Wait
    }

    /// Records an event and returns its id once it would survive a power cut.
    ///
    /// # Errors
    /// When that cannot be promised; it is counted then.
    pub async fn record_safely(&self, event: AuditEvent) -> Result<Ulid, RecordError> {
        let mut is_taken = false;
        let outcome = match self.admit(event) {
            Ok(event) => tokio::time::timeout(self.wait_max, self.hand_over(event, &mut is_taken)).await,
            Err(error) => Ok(Err(error)),
        };
        let late = if is_taken { RecordError::TimedOut } else { RecordError::QueueFull };
        let outcome = outcome.unwrap_or(Err(late));
        self.count(outcome.is_ok());
        outcome
    }

    /// Queues an event and returns at once.
    ///
    /// # Errors
    /// When the event was not queued; it is counted then.
    pub fn record_soon(&self, event: AuditEvent) -> Result<(), RecordError> {
        let outcome = self.admit(event).and_then(|event| match event {
            Admitted::Sealed(body) => {
                self.queues.sealed.try_send(Queued { body, done: None }).map_err(unqueued)
            }
            Admitted::New(event) => {
                self.queues.newcomers.try_send(Unsealed { event: *event, done: None }).map_err(unqueued)
            }
        });
        self.count(outcome.is_ok());
        outcome
    }

    /// Returns how the log is.
    pub fn health(&self) -> Health {
        *self.state.health.read()
    }

    /// Returns what is wrong with the clock by which entries are recorded.
    pub fn clock_warnings(&self) -> Vec<ClockWarning> {
        self.state.timing.warnings()
    }

    /// Waits for a place in the queue, and then for the disk; tells once the event has its place, from which it is written
    /// whether or not anybody waits.
    async fn hand_over(&self, event: Admitted, is_taken: &mut bool) -> Result<Ulid, RecordError> {
        let (done, safe) = oneshot::channel();
        let stopped = RecordError::Unavailable(Trouble::Stopped);
        let done = Some(done);
        let is_queued = match event {
            Admitted::Sealed(body) => self.queues.sealed.send(Queued { body, done }).await.is_ok(),
            Admitted::New(event) => {
                self.queues.newcomers.send(Unsealed { event: *event, done }).await.is_ok()
            }
        };
        if !is_queued {
            return Err(stopped);
        }
        *is_taken = true;
        safe.await.unwrap_or(Err(stopped))
    }

    /// Returns what is written of an event, if the log takes it. Asks nothing of a database: this is where answers wait.
    fn admit(&self, event: AuditEvent) -> Result<Admitted, RecordError> {
        if self.state.refusing.load(Ordering::Relaxed) {
            return Err(RecordError::Unavailable(self.state.trouble().unwrap_or(Trouble::DiskFailed)));
        }
        let mut is_new = false;
        let body = stored::body_with(&event, |(name, standing)| {
            self.keyring.at_hand(name, standing).unwrap_or_else(|| {
                is_new = true;
                stand_in(name)
            })
        });
        match body.len() > EVENT_BYTES_MAX {
            true => Err(RecordError::TooLarge),
            false if is_new => Ok(Admitted::New(Box::new(event))),
            false => Ok(Admitted::Sealed(body)),
        }
    }

    fn count(&self, recorded: bool) {
        if !recorded {
            self.metrics.audit_refused();
        }
    }
}

/// Returns why an event got no place.
fn unqueued<T>(error: TrySendError<T>) -> RecordError {
    match error {
        TrySendError::Full(_) => RecordError::QueueFull,
        TrySendError::Closed(_) => RecordError::Unavailable(Trouble::Stopped),
    }
}

impl Trouble {
    /// Tells whether entries are still written.
    pub fn writable(self) -> bool {
        match self {
            Self::DiskLow { .. } => true,
            Self::DiskFull | Self::DiskFailed | Self::Stopped => false,
        }
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            refusing: AtomicBool::new(false),
            health: RwLock::new(Health::Sound),
            timing: Timing::default(),
        }
    }

    pub(super) fn set(&self, health: Health) {
        let refusing = match health {
            Health::Sound => false,
            Health::Degraded(trouble) => !trouble.writable(),
        };
        *self.health.write() = health;
        self.refusing.store(refusing, Ordering::Relaxed);
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        match *self.health.read() {
            Health::Sound => None,
            Health::Degraded(trouble) => Some(trouble),
        }
    }
}
