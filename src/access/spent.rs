//! What counts once: what was used is remembered by all nodes of a deployment together, and over a restart.
//!
//! Kept is a hash of it, until it would not be taken any more anyway. Whoever writes it first is the first, whichever
//! node that is at: see [`Followed::change`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::secret::NodeSecret;
use crate::clock::Clock;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;

/// The most that is remembered at a time.
pub const SPENT_MAX: usize = 100_000;

/// What was used, by its hash.
pub struct Spent {
    table: Followed<String, SpentRecord>,
    secret: NodeSecret,
    known: Mutex<HashMap<String, Timestamp>>,
    /// Says when it need not be remembered any more; without it whoever asks does.
    sure: Option<Arc<dyn Clock>>,
}

/// Why something does not count.
#[derive(Debug, thiserror::Error)]
pub enum SpentFault {
    /// It was used before.
    #[error("it was used already")]
    Used,
    /// As much is remembered as may be.
    #[error("too much was used lately")]
    TooMany,
    /// The store failed: nobody can tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Serialize, Deserialize)]
struct SpentRecord {
    until: Timestamp,
}

impl Record for SpentRecord {
    const VERSION: u32 = 1;
}

impl Spent {
    /// Returns what is remembered in a table of a store; it is read when it is first asked for.
    pub fn new(store: &Store, table: &'static str, secret: NodeSecret) -> Self {
        Self { table: Followed::new(store.table(table)), secret, known: Mutex::default(), sure: None }
    }

    /// Returns the same, which forgets by a clock that surely does not run ahead: what one forgot that jumped, it would take
    /// again.
    pub fn aged_by(self, sure: Arc<dyn Clock>) -> Self {
        Self { sure: Some(sure), ..self }
    }

    /// Uses something of a kind up, and remembers that for a while. Blocks for a disk sync.
    ///
    /// # Errors
    /// See [`SpentFault`]; only what comes back without one counts.
    pub fn spend(
        &self,
        kind: &str,
        what: &str,
        now: Timestamp,
        kept_for: Duration,
    ) -> Result<(), SpentFault> {
        let key = URL_SAFE_NO_PAD.encode(self.secret.hash(kind, what.as_bytes()));
        let until = now.checked_add(kept_for).unwrap_or(Timestamp::MAX);
        let come = self.sure.as_ref().map_or(now, |sure| sure.now().min(now));
        self.table.change(
            |fresh| self.take_over(fresh),
            |batch| {
                let known = self.known.lock();
                if known.get(&key).is_some_and(|until| *until > come) {
                    return Err(SpentFault::Used);
                }
                let over: Vec<&String> =
                    known.iter().filter(|(_, until)| **until <= come).map(|(key, _)| key).collect();
                if known.len() - over.len() >= SPENT_MAX {
                    return Err(SpentFault::TooMany);
                }
                over.into_iter().filter(|over| **over != key).for_each(|over| {
                    self.table.table().delete_in(batch, over);
                });
                Ok(self.table.table().put_in(batch, &key, &SpentRecord { until })?)
            },
        )
    }

    fn take_over(&self, fresh: Vec<Fresh<String, SpentRecord>>) {
        let mut known = self.known.lock();
        for one in fresh {
            match one {
                Fresh::Anew => known.clear(),
                Fresh::Put { key, record, .. } => drop(known.insert(key, record.until)),
                Fresh::Gone { key } => drop(known.remove(&key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::clock::sure::SureClock;
    use crate::store::KeyRange;
    use crate::store::Order;

    const FOR: Duration = Duration::from_secs(100);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn what_was_used_at_one_node_is_used_at_all_and_after_a_restart() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let node = || Spent::new(&store, "spent", secret.clone());
        let (one, other) = (node(), node());
        one.spend("id", "a", at(0), FOR).unwrap();
        assert!(matches!(other.spend("id", "a", at(99), FOR), Err(SpentFault::Used)));
        assert!(matches!(node().spend("id", "a", at(99), FOR), Err(SpentFault::Used)));
        other.spend("id", "b", at(99), FOR).unwrap();
        other.spend("other", "a", at(99), FOR).unwrap();
        // It may be used again once nobody would take it, and is forgotten with the next that is.
        one.spend("id", "a", at(100), FOR).unwrap();
        one.spend("id", "c", at(250), FOR).unwrap();
        let kept = store.table::<String, SpentRecord>("spent");
        let kept = kept.list(&KeyRange::all(), Order::Ascending, 9).unwrap();
        assert_eq!((kept.len(), kept[0].1.until), (1, at(350)));
    }

    #[test]
    fn of_many_at_once_one_is_the_first() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let first = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let node = Spent::new(&store, "spent", secret.clone());
                    let is_first = node.spend("id", "a", at(0), FOR).is_ok();
                    first.fetch_add(usize::from(is_first), std::sync::atomic::Ordering::SeqCst);
                });
            }
        });
        assert_eq!(first.into_inner(), 1);
    }

    #[test]
    fn a_clock_that_jumped_lets_nothing_count_twice() {
        let clock = Arc::new(ManualClock::new(at(0)));
        let sure = Arc::new(SureClock::since(clock.clone(), None));
        let node = Spent::new(&Store::in_memory(), "spent", NodeSecret::random()).aged_by(sure);
        node.spend("id", "a", at(0), FOR).unwrap();
        clock.set(at(100_000));
        node.spend("id", "b", clock.now(), FOR).unwrap();
        clock.set(at(1));
        assert!(matches!(node.spend("id", "a", clock.now(), FOR), Err(SpentFault::Used)));
    }
}
