//! How a sink stands, for whoever asks.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use parking_lot::RwLock;

use super::config::Filter;
use super::config::SinkConfig;
use super::cursor::Cursor;
use crate::govern::audit::Entry;
use crate::id::Ulid;
use crate::telemetry::metrics::Metrics;

/// What a sink is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkState {
    /// It has not spoken to its platform since the process began.
    Idle,
    /// The platform took what it was sent last.
    Connected,
    /// The platform did not take what it was sent last; it is tried again.
    Retrying,
    /// It does not run: it could not be opened, or it broke down. It is begun again.
    Failed,
}

/// The figures of one sink.
pub struct SinkStatus {
    /// The sink's name.
    pub name: String,
    /// The platform.
    pub platform: &'static str,
    told: RwLock<Told>,
    filter: Filter,
    metrics: Arc<Metrics>,
    /// What retention took from it.
    overtaken: Mutex<Overtaken>,
}

/// What the log dropped before a sink had it.
#[derive(Debug, Default)]
struct Overtaken {
    /// The newest entry that the sink has read; none before it has a place.
    read_to: Option<Ulid>,
    /// Entries that its figures do not count yet.
    fresh: u64,
}

/// What a sink tells of itself.
#[derive(Clone, Debug)]
pub struct Told {
    /// What it is doing.
    pub state: SinkState,
    /// How many entries the platform has taken, ever.
    pub forwarded: u64,
    /// How many attempts failed, ever.
    pub errors: u64,
    /// How many entries it refused for good, ever.
    pub dead: u64,
    /// How many entries retention dropped before they could be sent, ever.
    pub missed: u64,
    /// When it took the last one.
    pub last_forward: Option<Timestamp>,
    /// The last entry that is done with.
    pub cursor: Option<String>,
    /// Why the last attempt failed; nothing after one that did not.
    pub trouble: Option<String>,
}

impl SinkState {
    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connected => "connected",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
        }
    }
}

impl SinkStatus {
    /// Returns the figures of a sink that has not run yet.
    pub(super) fn new(config: &SinkConfig, metrics: Arc<Metrics>) -> Self {
        let told = Told {
            state: SinkState::Idle,
            forwarded: 0,
            errors: 0,
            dead: 0,
            missed: 0,
            last_forward: None,
            cursor: None,
            trouble: None,
        };
        let platform = config.target.platform();
        metrics.siem_sinks(platform, told.state.as_str(), 1);
        Self {
            name: config.name.clone(),
            platform,
            told: RwLock::new(told),
            filter: config.filter.clone(),
            metrics,
            overtaken: Mutex::default(),
        }
    }

    /// Returns the figures as they are.
    pub fn told(&self) -> Told {
        let mut told = self.told.read().clone();
        told.missed += self.overtaken.lock().fresh;
        told
    }

    /// Notes up to which entry the sink has read the log: what is dropped of that it still has.
    pub(super) fn read_to(&self, place: Option<Ulid>) {
        self.overtaken.lock().read_to = place;
    }

    /// Counts an entry that the log drops, where the sink would have sent it and has not read it.
    pub(super) fn dropped(&self, entry: &Entry) {
        let mut overtaken = self.overtaken.lock();
        if overtaken.read_to.is_some_and(|read_to| entry.id > read_to) && self.filter.lets_through(entry) {
            overtaken.fresh += 1;
        }
    }

    /// Returns how many entries were missed since the last call.
    pub(super) fn take_missed(&self) -> u64 {
        std::mem::take(&mut self.overtaken.lock().fresh)
    }

    /// Notes that the sink does not run, and why.
    pub(super) fn failed(&self, trouble: String) {
        let mut told = self.told.write();
        self.count(told.state, SinkState::Failed);
        // What it had read and not handed over, it has to read again.
        if let Some(place) = told.cursor.as_ref().and_then(|id| id.parse().ok()) {
            self.read_to(Some(place));
        }
        (told.state, told.trouble) = (SinkState::Failed, Some(trouble));
    }

    /// Takes the figures over, and how the sink stands.
    pub(super) fn follow(&self, cursor: &Cursor, state: SinkState, trouble: Option<String>) {
        let mut told = self.told.write();
        self.count(told.state, state);
        *told = Told {
            state,
            forwarded: cursor.forwarded,
            errors: cursor.errors,
            dead: cursor.dead,
            missed: cursor.missed,
            last_forward: cursor.last_forward_ms.and_then(|at| Timestamp::from_millisecond(at).ok()),
            cursor: cursor.after.clone(),
            trouble,
        };
    }

    /// Takes the figures over; the sink stands as it did.
    pub(super) fn moved(&self, cursor: &Cursor) {
        let Told { state, trouble, .. } = self.told();
        self.follow(cursor, state, trouble);
    }

    /// Counts a change; one that stays as it is keeps its count, so that no scrape finds it missing.
    fn count(&self, before: SinkState, now: SinkState) {
        if before == now {
            return;
        }
        self.metrics.siem_sinks(self.platform, before.as_str(), -1);
        self.metrics.siem_sinks(self.platform, now.as_str(), 1);
    }
}

impl Drop for SinkStatus {
    fn drop(&mut self) {
        self.metrics.siem_sinks(self.platform, self.told.get_mut().state.as_str(), -1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::govern::audit::AuditEvent;
    use crate::govern::siem::config::FileTarget;
    use crate::govern::siem::config::Target;

    fn entry(number: u128, event_type: &str) -> Entry {
        let event = AuditEvent { event_type: event_type.to_owned(), ..AuditEvent::default() };
        let (hash, previous_hash) = Default::default();
        Entry { node: None, id: Ulid(number), recorded_unix_ms: None, event, hash, previous_hash }
    }

    fn config() -> SinkConfig {
        let file = FileTarget { path: "x".into(), bytes_max: 1, kept: 0 };
        SinkConfig {
            name: "soc".to_owned(),
            target: Target::OcsfFile(file),
            filter: Filter { event_types: vec!["exchange".to_owned()], ..Filter::default() },
            batch_entries_max: 1,
            timeout_ms: 1,
            backoff_min_ms: 1,
            backoff_max_ms: 1,
        }
    }

    #[test]
    fn a_sink_that_fails_again_is_counted_at_every_moment() {
        let metrics = Arc::new(Metrics::new("0", "0"));
        let status = SinkStatus::new(&config(), Arc::clone(&metrics));
        status.failed("at first".to_owned());
        let failed = format!("portcullis_siem_sinks{{platform=\"{}\",status=\"failed\"}} 1", status.platform);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let again = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    status.failed("again".to_owned());
                }
            });
            let counted = |_| metrics.render().lines().any(|line| line == failed);
            let at_every_moment = (0..200).all(counted);
            is_over.store(true, Ordering::Relaxed);
            again.join().unwrap();
            assert!(at_every_moment);
        });
    }

    #[test]
    fn what_the_log_drops_is_missed_where_it_was_wanted_and_not_read() {
        let status = SinkStatus::new(&config(), Arc::new(Metrics::new("0", "0")));
        status.dropped(&entry(1, "exchange"));
        assert_eq!(status.told().missed, 0, "it begins with what comes once it has a place");
        status.read_to(Some(Ulid(5)));
        for (number, event_type) in [(5, "exchange"), (6, "login"), (7, "exchange"), (8, "exchange")] {
            status.dropped(&entry(number, event_type));
        }
        assert_eq!(status.told().missed, 2);
        assert_eq!((status.take_missed(), status.take_missed()), (2, 0));
    }
}
