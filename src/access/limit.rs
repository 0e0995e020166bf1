//! Quotas: one token bucket a caller, exact under concurrency, in bounded memory.
//!
//! A bucket is the moment at which it will be full again, in nanoseconds (the generic cell rate
//! algorithm): taking a token moves that moment by one refill interval, and is refused when it would
//! lie further ahead than the whole capacity. A bucket whose moment has passed is full and can be
//! forgotten, which is how memory stays bounded. A caller whose tier changes keeps its bucket.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::tier::Quota;
use super::tier::Tier;

/// What a limit and what remains of it are called where there is none.
pub const UNLIMITED: u64 = 2_147_483_647;

const SHARDS: usize = 64;
/// Buckets of one shard before full ones are forgotten.
const SHARD_BUCKETS_SWEEP: usize = 4096;
/// Buckets of one shard at most: a million callers fit; past it new callers share one bucket.
const SHARD_BUCKETS_MAX: usize = 32_768;
const NANOS_PER_MINUTE: i128 = 60_000_000_000;

/// The quota of each tier.
pub type Quotas = [Option<Quota>; 4];

/// What is left of a caller's quota after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// Requests per minute.
    pub limit: u64,
    /// Whole tokens left.
    pub remaining: u64,
    /// When the bucket is full again, in Unix seconds.
    pub reset_unix: i64,
    /// Whether the request may pass.
    pub allowed: bool,
    /// When the next token comes, in seconds; 0 where there is one.
    pub retry_after_s: u64,
}

/// Every caller's bucket.
pub struct Buckets {
    quotas: ArcSwap<Quotas>,
    shards: Vec<Mutex<HashMap<u64, i128>>>,
    hasher: RandomState,
}

impl LimitState {
    /// Returns the state of a caller without a quota.
    pub fn unlimited(now: Timestamp) -> Self {
        Self {
            limit: UNLIMITED,
            remaining: UNLIMITED,
            reset_unix: now.as_second(),
            allowed: true,
            retry_after_s: 0,
        }
    }
}

impl Buckets {
    /// Returns full buckets of these quotas.
    pub fn new(quotas: Quotas) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { quotas: ArcSwap::from_pointee(quotas), shards, hasher: RandomState::new() }
    }

    /// Changes the quotas; what callers have used stays used.
    pub fn set_quotas(&self, quotas: Quotas) {
        self.quotas.store(Arc::new(quotas));
    }

    /// Returns the quota of a tier; `None` is unlimited.
    pub fn quota(&self, tier: Tier) -> Option<Quota> {
        self.quotas.load()[tier as usize]
    }

    /// Takes one token for a request of `caller`.
    pub fn take(&self, caller: &str, tier: Tier, now: Timestamp) -> LimitState {
        self.change(caller, tier, now, 1)
    }

    /// Returns the caller's state without taking a token.
    pub fn peek(&self, caller: &str, tier: Tier, now: Timestamp) -> LimitState {
        self.change(caller, tier, now, 0)
    }

    fn change(&self, caller: &str, tier: Tier, now: Timestamp, tokens: i128) -> LimitState {
        let Some(quota) = self.quotas.load()[tier as usize] else { return LimitState::unlimited(now) };
        let interval = NANOS_PER_MINUTE / i128::from(quota.requests_per_minute.max(1));
        let capacity = interval * i128::from(quota.burst.max(1));
        let now_ns = now.as_nanosecond();
        let key = self.hasher.hash_one(caller);
        let mut shard = self.shards[key as usize % SHARDS].lock();
        if shard.len() >= SHARD_BUCKETS_SWEEP && !shard.contains_key(&key) {
            shard.retain(|_, full_at| *full_at > now_ns);
        }
        // An overflowing shard makes strangers share a bucket: a flood of names gains nothing.
        let key = if shard.len() >= SHARD_BUCKETS_MAX && !shard.contains_key(&key) { 0 } else { key };
        // A clock set back must not lock a caller out: no bucket is emptier than empty.
        let full_at = shard.get(&key).copied().unwrap_or(now_ns).clamp(now_ns, now_ns + capacity);
        let after = full_at + interval * tokens;
        let allowed = after - now_ns <= capacity;
        let kept = if allowed { after } else { full_at };
        if tokens > 0 {
            shard.insert(key, kept);
        }
        let remaining = (capacity - (kept - now_ns)) / interval;
        let wait = if remaining > 0 { 0 } else { (kept + interval - capacity - now_ns).max(0) };
        LimitState {
            limit: u64::from(quota.requests_per_minute),
            remaining: remaining as u64,
            reset_unix: (kept.div_euclid(1_000_000_000) + i128::from(kept.rem_euclid(1_000_000_000) > 0))
                as i64,
            allowed,
            retry_after_s: (wait as u128).div_ceil(1_000_000_000) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::*;

    fn quotas() -> Quotas {
        Tier::ALL.map(Tier::quota)
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap()
    }

    #[test]
    fn a_burst_then_one_a_second() {
        let buckets = Buckets::new(quotas());
        let first = buckets.take("a", Tier::Community, at(0));
        assert_eq!((first.limit, first.remaining, first.reset_unix), (60, 99, 1_700_000_001));
        let passed = (0..200).filter(|_| buckets.take("a", Tier::Community, at(0)).allowed).count();
        assert_eq!(passed, 99);
        let refused = buckets.take("a", Tier::Community, at(0));
        assert_eq!((refused.allowed, refused.remaining, refused.retry_after_s), (false, 0, 1));
        assert!(!buckets.take("a", Tier::Community, at(999)).allowed);
        assert!(buckets.take("a", Tier::Community, at(1000)).allowed);
        assert!(buckets.take("b", Tier::Community, at(0)).allowed);
        assert_eq!(buckets.take("a", Tier::Enterprise, at(0)), LimitState::unlimited(at(0)));
        // The clock set back an hour neither refills nor locks out for longer than a full bucket.
        assert!(buckets.peek("a", Tier::Community, at(-3_600_000)).retry_after_s <= 1);
    }

    #[test]
    fn counts_are_exact_under_concurrency() {
        let buckets = Buckets::new(quotas());
        let passed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mine = (0..100).filter(|_| buckets.take("a", Tier::Developer, at(0)).allowed).count();
                    passed.fetch_add(mine, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(passed.load(Ordering::Relaxed), 200);
    }

    #[test]
    fn a_million_callers_do_not_fill_the_memory() {
        let buckets = Buckets::new(quotas());
        for caller in 0..1_000_000u32 {
            let now = at(i64::from(caller / 100)) + Duration::ZERO;
            buckets.take(&caller.to_string(), Tier::Community, now);
        }
        let kept: usize = buckets.shards.iter().map(|shard| shard.lock().len()).sum();
        assert!(kept < 600_000, "{kept}");
    }
}
