//! How many requests a caller may have under way at once.
//!
//! A caller is counted only while it has requests under way, so that memory is bounded by what is under
//! way. A request over the limit is refused at once and costs nothing; it never waits.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::Arc;

use parking_lot::Mutex;

const SHARDS: usize = 16;

/// The requests under way of every caller.
pub struct Concurrency {
    shards: Vec<Mutex<HashMap<String, u32>>>,
    hasher: RandomState,
}

/// One request under way; it is over when this is dropped.
pub struct Seat {
    concurrency: Arc<Concurrency>,
    caller: String,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }
}

impl Concurrency {
    /// Returns a seat for one more request of a caller; `None` where it has `max` under way.
    pub fn enter(self: &Arc<Self>, caller: &str, max: u32) -> Option<Seat> {
        let mut shard = self.shard(caller).lock();
        match shard.get_mut(caller) {
            Some(count) if *count >= max => return None,
            Some(count) => *count += 1,
            None if max == 0 => return None,
            None => drop(shard.insert(caller.to_owned(), 1)),
        }
        Some(Seat { concurrency: Arc::clone(self), caller: caller.to_owned() })
    }

    fn shard(&self, caller: &str) -> &Mutex<HashMap<String, u32>> {
        &self.shards[self.hasher.hash_one(caller) as usize % SHARDS]
    }
}

impl Seat {
    /// Returns a seat of the same caller among those of another kind, which are counted apart; `None` where it has `max`.
    pub fn beside(&self, kind: &str, max: u32) -> Option<Self> {
        // No caller's name begins so: what is known of callers has no space before its colon.
        self.concurrency.enter(&format!("{kind} of {}", self.caller), max)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut shard = self.concurrency.shard(&self.caller).lock();
        match shard.get_mut(&self.caller) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(shard.remove(&self.caller)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_caller_has_so_many_seats_and_gets_them_back() {
        let concurrency = Arc::new(Concurrency::default());
        let mut seats: Vec<Seat> = (0..3).map(|_| concurrency.enter("a", 3).unwrap()).collect();
        assert!(concurrency.enter("a", 3).is_none() && concurrency.enter("b", 3).is_some());
        seats.pop();
        assert!(concurrency.enter("a", 3).is_some());
        drop(seats);
        assert!(concurrency.shards.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn no_more_than_the_limit_are_under_way_at_any_moment() {
        let (concurrency, all_in) = (Arc::new(Concurrency::default()), Barrier::new(16));
        let let_in = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let seat = concurrency.enter("a", 5);
                    let_in.fetch_add(usize::from(seat.is_some()), Ordering::SeqCst);
                    // Nobody leaves before everybody has asked.
                    all_in.wait();
                });
            }
        });
        assert_eq!(let_in.load(Ordering::SeqCst), 5);
    }
}
