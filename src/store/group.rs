//! Many callers, one disk sync.

use parking_lot::Condvar;
use parking_lot::Mutex;

use super::StoreError;

/// Runs one sync at a time and lets everyone share it who came before it began.
#[derive(Default)]
pub(super) struct GroupSync {
    rounds: Mutex<Rounds>,
    over: Condvar,
}

#[derive(Default)]
struct Rounds {
    started: u64,
    finished: u64,
    /// The last round that failed: whoever waited for it, or for an earlier one, is told.
    failed: u64,
}

/// A sync under way: it is over however it ends, so that nobody waits for one that panicked.
struct Round<'g> {
    group: &'g GroupSync,
    number: u64,
    is_durable: bool,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let mut rounds = self.group.rounds.lock();
        rounds.finished = self.number;
        if !self.is_durable {
            rounds.failed = self.number;
        }
        self.group.over.notify_all();
    }
}

impl GroupSync {
    /// Comes back after a sync that began after the call.
    pub(super) fn sync(&self, sync: impl Fn() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut rounds = self.rounds.lock();
        let wanted = rounds.started + 1;
        while rounds.finished < wanted {
            if rounds.started > rounds.finished {
                self.over.wait(&mut rounds);
                continue;
            }
            rounds.started += 1;
            let mut round = Round { group: self, number: rounds.started, is_durable: false };
            drop(rounds);
            round.is_durable = sync().is_ok();
            drop(round);
            rounds = self.rounds.lock();
        }
        if rounds.failed >= wanted { Err(StoreError::NotDurable) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_that_panics_keeps_nobody_waiting() {
        let group = GroupSync::default();
        let panics = || group.sync(|| panic!("the disk is gone"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(group.sync(|| Ok(())).is_ok());
    }

    #[test]
    fn waiters_share_a_sync() {
        let (group, syncs, ready) = (GroupSync::default(), AtomicUsize::new(0), Barrier::new(16));
        let slow = || {
            syncs.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(50));
            Ok(())
        };
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    ready.wait();
                    group.sync(slow).expect("the sync works");
                });
            }
        });
        assert!(syncs.load(Ordering::SeqCst) < 16);
    }

    #[test]
    fn a_failed_sync_is_told() {
        let group = GroupSync::default();
        assert!(group.sync(|| Err(StoreError::NotDurable)).is_err());
        assert!(group.sync(|| Ok(())).is_ok());
    }
}
