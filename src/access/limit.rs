//! Token buckets, one a caller, in bounded memory. Pure: time comes as an argument.
//!
//! A bucket is one number: the moment it will be full again (generic cell rate algorithm). A bucket that is
//! full is the same as none, so full ones are what is forgotten first.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use parking_lot::Mutex;

use super::tier::Rate;

/// What the headers say where there is no limit.
pub const UNLIMITED: u32 = i32::MAX as u32;

const SHARDS: usize = 64;
/// How many buckets are remembered at once, over all shards.
const BUCKETS_MAX: usize = 1 << 18;
const SHARD_MAX: usize = BUCKETS_MAX / SHARDS;
/// How many buckets are looked at to find one to forget when none is full.
const EVICTION_SAMPLE: usize = 16;
/// How often a crowded shard is swept for full buckets.
const SWEEP_EVERY_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60_000_000_000;

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Time since any fixed moment; never goes back.
    pub monotonic: Duration,
    /// Wall-clock time in Unix milliseconds.
    pub unix_ms: i64,
}

/// The state of a caller's bucket after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// Whether the request may go on.
    pub allowed: bool,
    /// Requests a minute.
    pub limit: u32,
    /// Whole tokens left.
    pub remaining: u32,
    /// The Unix second at which the bucket is full again.
    pub reset_unix: i64,
    /// Seconds until a token is there, at least 1; 0 when the request was allowed.
    pub retry_after_s: u64,
}

/// The buckets of all callers.
pub struct Buckets {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    /// When each caller's bucket will be full, in monotonic nanoseconds.
    full_at: HashMap<u128, u64>,
    swept_at: u64,
}

impl Moment {
    /// Returns the moment a clock shows.
    pub fn of(clock: &dyn crate::clock::Clock) -> Self {
        Self { monotonic: clock.monotonic(), unix_ms: clock.now().as_millisecond() }
    }

    fn nanos(self) -> u64 {
        u64::try_from(self.monotonic.as_nanos()).unwrap_or(u64::MAX / 2)
    }

    fn unix_after(self, nanos: u64) -> i64 {
        let ms = self.unix_ms.saturating_add((nanos.div_ceil(1_000_000)) as i64);
        ms.div_euclid(1000) + i64::from(ms.rem_euclid(1000) > 0 && nanos > 0)
    }
}

impl Default for Buckets {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }
}

impl Buckets {
    /// Takes a token from the bucket of `caller`, a name that is unique over all kinds of callers.
    pub fn take(&self, caller: &str, rate: Rate, now: Moment) -> LimitState {
        self.look(caller, rate, now, 1)
    }

    /// Returns the state of a bucket without taking anything; `allowed` says whether a token is there.
    pub fn peek(&self, caller: &str, rate: Rate, now: Moment) -> LimitState {
        self.look(caller, rate, now, 0)
    }

    fn look(&self, caller: &str, rate: Rate, now: Moment, tokens: u64) -> LimitState {
        let Rate::Limited { requests_per_minute, burst } = rate else {
            let reset_unix = now.unix_after(0);
            return LimitState {
                allowed: true,
                limit: UNLIMITED,
                remaining: UNLIMITED,
                reset_unix,
                retry_after_s: 0,
            };
        };
        let per_token = (MINUTE_NS / u64::from(requests_per_minute.max(1))).max(1);
        let capacity = per_token * u64::from(burst.max(1));
        let key = self.key(caller);
        let time = now.nanos();
        let mut shard = self.shards[(key >> 64) as usize % SHARDS].lock();
        let missing = shard.full_at.get(&key).map_or(0, |full_at| full_at.saturating_sub(time)).min(capacity);
        let allowed = missing + per_token <= capacity;
        let missing = if allowed { missing + per_token * tokens } else { missing };
        if allowed && tokens > 0 {
            shard.put(key, time + missing, time);
        }
        let short = (missing + per_token).saturating_sub(capacity);
        LimitState {
            allowed,
            limit: requests_per_minute,
            remaining: ((capacity - missing) / per_token) as u32,
            reset_unix: now.unix_after(missing),
            retry_after_s: if allowed { 0 } else { short.div_ceil(1_000_000_000).max(1) },
        }
    }

    /// Returns 128 bits of keyed hash: callers cannot choose to share a bucket.
    fn key(&self, caller: &str) -> u128 {
        u128::from(self.hasher.hash_one(caller)) << 64 | u128::from(self.hasher.hash_one((1u8, caller)))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().full_at.len()).sum()
    }
}

impl Shard {
    fn put(&mut self, key: u128, full_at: u64, now: u64) {
        if self.full_at.len() >= SHARD_MAX && !self.full_at.contains_key(&key) {
            self.make_room(now);
        }
        self.full_at.insert(key, full_at);
    }

    /// Forgets full buckets, or, where there are none, the fullest of a few: its caller gains some tokens.
    fn make_room(&mut self, now: u64) {
        if now.saturating_sub(self.swept_at) >= SWEEP_EVERY_NS || self.swept_at == 0 {
            self.swept_at = now.max(1);
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        if self.full_at.len() >= SHARD_MAX {
            let sample = self.full_at.iter().take(EVICTION_SAMPLE);
            if let Some(fullest) = sample.min_by_key(|(_, full_at)| **full_at).map(|(key, _)| *key) {
                self.full_at.remove(&fullest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering;

    use super::*;

    const RATE: Rate = Rate::Limited { requests_per_minute: 60, burst: 100 };

    fn at(ms: u64) -> Moment {
        Moment { monotonic: Duration::from_millis(ms), unix_ms: 1_000_000 + ms as i64 }
    }

    #[test]
    fn a_burst_then_one_a_second() {
        let buckets = Buckets::default();
        for number in 0..100 {
            let state = buckets.take("a", RATE, at(0));
            assert_eq!((state.allowed, state.remaining, state.limit), (true, 99 - number, 60));
            assert_eq!(state.reset_unix, 1000 + i64::from(number) + 1);
        }
        let refused = buckets.take("a", RATE, at(0));
        let expected =
            LimitState { allowed: false, limit: 60, remaining: 0, reset_unix: 1100, retry_after_s: 1 };
        assert_eq!(refused, expected);
        assert!(!buckets.take("a", RATE, at(999)).allowed);
        assert!(buckets.peek("a", RATE, at(1000)).allowed);
        assert!(buckets.take("a", RATE, at(1000)).allowed);
        assert!(!buckets.take("a", RATE, at(1000)).allowed);
        assert!(buckets.take("b", RATE, at(1000)).allowed);
        assert_eq!(buckets.peek("a", RATE, at(500_000)).remaining, 100);
    }

    #[test]
    fn no_limit_is_shown_as_the_largest_number() {
        let state = Buckets::default().take("a", Rate::Unlimited, at(0));
        assert_eq!((state.limit, state.remaining, state.reset_unix), (2_147_483_647, 2_147_483_647, 1000));
    }

    #[test]
    fn callers_at_once_share_exactly_what_there_is() {
        let (buckets, allowed, clock) = (Buckets::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let now = at(clock.load(Ordering::SeqCst));
                        allowed.fetch_add(u64::from(buckets.take("a", RATE, now).allowed), Ordering::SeqCst);
                        clock.fetch_add(5, Ordering::SeqCst);
                    }
                });
            }
        });
        // 8 × 500 steps of 5 ms are 20 s: the burst, and a token each second; then drain what is left.
        let end = at(20_000);
        while buckets.take("a", RATE, end).allowed {
            allowed.fetch_add(1, Ordering::SeqCst);
        }
        assert_eq!(allowed.load(Ordering::SeqCst), 120);
    }

    #[test]
    fn a_million_callers_take_bounded_memory() {
        let buckets = Buckets::default();
        for number in 0..1_000_000u64 {
            buckets.take(&number.to_string(), RATE, at(number / 1000));
        }
        assert!(buckets.len() <= BUCKETS_MAX, "{}", buckets.len());
    }
}
