//! Quotas: one token bucket a caller, exact under concurrency, in bounded memory, kept over a restart.
//!
//! A bucket is the moment at which it will be full again, in nanoseconds (the generic cell rate
//! algorithm): taking a token moves that moment by one refill interval, and is refused when it would
//! lie further ahead than the whole capacity. A bucket whose moment has passed is full, which is what a
//! new one would be: only such buckets are forgotten, so that nobody gets a fresh bucket early. Where
//! there is no room for more, callers who are new share one bucket: a flood of names gains nothing, and
//! who was there before it keeps what is left to them.
//!
//! Buckets that are not full are written down when the process ends and read when it begins, under a
//! keyed hash of their callers. A process that is killed forgets them: its callers begin with full
//! buckets, at most one burst each.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::secret::NodeSecret;
use super::tier::Quota;
use super::tier::Tier;
use crate::clock::Clock;
use crate::store::Batch;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// What a limit and what remains of it are called where there is none.
pub const UNLIMITED: u64 = 2_147_483_647;

const SHARDS: usize = 64;
/// Buckets of one shard before full ones are forgotten.
const SHARD_BUCKETS_SWEEP: usize = 4096;
/// Buckets of one shard at most: a million callers fit; past it new callers share one bucket.
const SHARD_BUCKETS_MAX: usize = 32_768;
/// How often a shard without room looks for full buckets.
const FULL_SWEEP_NS: i128 = 1_000_000_000;
const NANOS_PER_MINUTE: i128 = 60_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
/// The bucket that callers share who find no room.
const SHARED: u64 = 0;
/// When to come back where nothing can be counted.
const REFUSED_FOR_NS: i128 = 1_000_000_000;
const PURPOSE: &str = "bucket";

/// The quota of each tier.
pub type Quotas = [Option<Quota>; 4];

/// Whose quotas buckets hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Callers of both planes: keys, users, addresses, the credentials of providers.
    Callers,
    /// Agents of A2A routes.
    Agents,
}

impl Kind {
    /// Returns the name that the kind goes by among nodes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Callers => "caller",
            Self::Agents => "agent",
        }
    }

    fn table(self) -> &'static str {
        match self {
            Self::Callers => "buckets",
            Self::Agents => "agent_buckets",
        }
    }
}

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

/// What a caller took here and the other nodes do not know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The keyed hash that stands for the caller.
    pub caller: u64,
    /// How much later the bucket is full because of it, in nanoseconds.
    pub cost_ns: i128,
    /// How long an empty bucket takes to be full, in nanoseconds.
    pub capacity_ns: i128,
}

/// Every caller's bucket.
pub struct Buckets {
    kind: Kind,
    quotas: ArcSwap<Quotas>,
    shards: Vec<Mutex<Shard>>,
    secret: NodeSecret,
    /// Whether what is taken is told to other nodes.
    is_shared: AtomicBool,
    /// Whether what is counted is refused, because it cannot be counted with the others.
    refuses: AtomicBool,
}

/// The buckets of some callers.
struct Shard {
    full_at: HashMap<u64, i128>,
    /// What callers took since it was last told.
    untold: HashMap<u64, Taken>,
    /// At how many buckets full ones are looked for next.
    sweep_at: usize,
    /// When a shard without room was last swept.
    swept_ns: i128,
}

/// The buckets of one shard as they are stored: callers' hashes, and when each is full, in Unix milliseconds.
#[derive(Serialize, Deserialize)]
struct Levels {
    full_at_ms: Vec<(u64, i64)>,
}

impl Record for Levels {
    const VERSION: u32 = 1;
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
    /// Returns full buckets of these quotas, which end with the process.
    pub fn new(quotas: Quotas) -> Self {
        Self::keyed(Kind::Callers, quotas, NodeSecret::random())
    }

    /// Returns the buckets that a process before has left in a store. What cannot be read counts as full.
    pub fn open(kind: Kind, quotas: Quotas, secret: NodeSecret, store: &Store, now: Timestamp) -> Self {
        let buckets = Self::keyed(kind, quotas, secret);
        match buckets.levels(store).list(&KeyRange::all(), Order::Ascending, SHARDS) {
            Ok(found) => found.into_iter().for_each(|(_, levels)| buckets.restore(levels, now)),
            Err(error) => tracing::warn!(%error, "the levels of quotas cannot be read: all begin full"),
        }
        buckets
    }

    fn keyed(kind: Kind, quotas: Quotas, secret: NodeSecret) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        let (is_shared, refuses) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { kind, quotas: ArcSwap::from_pointee(quotas), shards, secret, is_shared, refuses }
    }

    /// Returns whose they are.
    pub fn kind(&self) -> Kind {
        self.kind
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

    /// Lets what is taken from now on be told to other nodes.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Says whether everything that is counted is refused.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Returns what up to `limit` callers took since it was last told, as told now.
    pub fn taken(&self, limit: usize) -> Vec<Taken> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            let room = limit - taken.len();
            let callers: Vec<u64> = shard.untold.keys().take(room).copied().collect();
            taken.extend(callers.iter().filter_map(|caller| shard.untold.remove(caller)));
        }
        taken
    }

    /// Takes back that something was told.
    pub fn untell(&self, taken: Vec<Taken>) {
        taken.into_iter().for_each(|taken| self.shard(taken.caller).lock().tell_later(taken));
    }

    /// Takes over when a caller's bucket is full by what all nodes know, in nanoseconds of the wall clock; what was
    /// taken here since comes on top.
    pub fn learn(&self, told: &Taken, full_at: i128) {
        let mut shard = self.shard(told.caller).lock();
        let since = shard.untold.get(&told.caller).map_or(0, |taken| taken.cost_ns);
        if let Some(known) = shard.full_at.get_mut(&told.caller) {
            *known = full_at + since;
        }
    }

    /// Writes the buckets down when `shutdown` resolves.
    pub async fn run(
        self: Arc<Self>,
        store: Store,
        clock: Arc<dyn Clock>,
        shutdown: impl Future<Output = ()>,
    ) {
        shutdown.await;
        let now = clock.now();
        let saved = tokio::task::spawn_blocking(move || self.save(&store, now)).await;
        if !matches!(saved, Ok(Ok(()))) {
            tracing::warn!("the levels of quotas could not be written down: all will begin full");
        }
    }

    /// Writes down the buckets that are not full, in the place of those that were.
    ///
    /// # Errors
    /// The store failed.
    pub fn save(&self, store: &Store, now: Timestamp) -> Result<(), StoreError> {
        let (table, mut batch) = (self.levels(store), Batch::default());
        for (at, shard) in self.shards.iter().enumerate() {
            let (shard, key) = (shard.lock(), format!("{at:02}"));
            let kept = shard.full_at.iter().filter(|(_, full_at)| **full_at > now.as_nanosecond());
            // Later rather than earlier: a restart gives nothing away.
            let milliseconds = |full_at: i128| full_at.div_euclid(NANOS_PER_MILLI) as i64 + 1;
            let full_at_ms: Vec<_> =
                kept.map(|(caller, full_at)| (*caller, milliseconds(*full_at))).collect();
            match full_at_ms.is_empty() {
                true => table.delete_in(&mut batch, &key),
                false => table.put_in(&mut batch, &key, &Levels { full_at_ms })?,
            }
        }
        store.commit_durable(&batch)
    }

    fn levels(&self, store: &Store) -> Table<String, Levels> {
        store.table(self.kind.table())
    }

    fn restore(&self, levels: Levels, now: Timestamp) {
        for (caller, full_at_ms) in levels.full_at_ms {
            let full_at = i128::from(full_at_ms) * NANOS_PER_MILLI;
            let mut shard = self.shard(caller).lock();
            if full_at > now.as_nanosecond() && shard.full_at.len() < SHARD_BUCKETS_MAX {
                shard.full_at.insert(caller, full_at);
            }
        }
    }

    fn shard(&self, caller: u64) -> &Mutex<Shard> {
        &self.shards[caller as usize % SHARDS]
    }

    /// Returns the keyed hash that stands for a caller; one whose tier changes keeps its bucket.
    fn caller(&self, name: &str) -> u64 {
        let hash = self.secret.hash(PURPOSE, name.as_bytes());
        let mut short = [0; 8];
        short.copy_from_slice(&hash[..8]);
        u64::from_le_bytes(short)
    }

    fn change(&self, caller: &str, tier: Tier, now: Timestamp, tokens: i128) -> LimitState {
        let Some(quota) = self.quota(tier) else { return LimitState::unlimited(now) };
        let interval = NANOS_PER_MINUTE / i128::from(quota.requests_per_minute.max(1));
        let capacity = interval * i128::from(quota.burst.max(1));
        let now_ns = now.as_nanosecond();
        let caller = self.caller(caller);
        let mut shard = self.shard(caller).lock();
        let key = if tokens > 0 { shard.room(caller, now_ns) } else { shard.place(caller) };
        let is_shared = self.is_shared.load(Ordering::Relaxed);
        // A clock set back must not lock a caller out: no bucket is emptier than empty, but for what other nodes let pass too
        // much, which is at most as much again.
        let emptiest = now_ns + if is_shared { 2 * capacity } else { capacity };
        let full_at = shard.full_at.get(&key).copied().unwrap_or(now_ns).clamp(now_ns, emptiest);
        let after = full_at + interval * tokens;
        let refuses = tokens > 0 && self.refuses.load(Ordering::Relaxed);
        let allowed = after - now_ns <= capacity && !refuses;
        let kept = if allowed { after } else { full_at };
        if tokens > 0 {
            shard.full_at.insert(key, kept);
        }
        if tokens > 0 && allowed && is_shared {
            let taken = Taken { caller: key, cost_ns: interval * tokens, capacity_ns: capacity };
            shard.tell_later(taken);
        }
        drop(shard);
        let remaining = ((capacity - (kept - now_ns)) / interval).max(0);
        let wait = if refuses {
            REFUSED_FOR_NS
        } else if remaining > 0 {
            0
        } else {
            (kept + interval - capacity - now_ns).max(0)
        };
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

impl Default for Shard {
    fn default() -> Self {
        Self {
            full_at: HashMap::new(),
            untold: HashMap::new(),
            sweep_at: SHARD_BUCKETS_SWEEP,
            swept_ns: i128::MIN,
        }
    }
}

impl Shard {
    /// Keeps what is still to be told; what finds no room is not, and counts here alone.
    fn tell_later(&mut self, taken: Taken) {
        if self.untold.len() < SHARD_BUCKETS_MAX || self.untold.contains_key(&taken.caller) {
            let known = self.untold.entry(taken.caller).or_insert(Taken { cost_ns: 0, ..taken });
            known.cost_ns = (known.cost_ns + taken.cost_ns).min(taken.capacity_ns * 2);
            known.capacity_ns = taken.capacity_ns;
        }
    }

    /// Returns where a caller's bucket is: its own place, or the shared one where it has none and there is no
    /// room.
    fn place(&self, caller: u64) -> u64 {
        let has_room = self.full_at.len() < SHARD_BUCKETS_MAX || self.full_at.contains_key(&caller);
        if has_room { caller } else { SHARED }
    }

    /// Makes room for a caller who is new by forgetting buckets that are full, then returns its place.
    fn room(&mut self, caller: u64, now_ns: i128) -> u64 {
        if self.full_at.len() < self.sweep_at || self.full_at.contains_key(&caller) {
            return self.place(caller);
        }
        // As long as a sweep doubles the room, it costs each newcomer little; without room it is rare.
        if self.full_at.len() < SHARD_BUCKETS_MAX || now_ns >= self.swept_ns.saturating_add(FULL_SWEEP_NS) {
            self.full_at.retain(|_, full_at| *full_at > now_ns);
            self.swept_ns = now_ns;
            self.sweep_at = (2 * self.full_at.len()).clamp(SHARD_BUCKETS_SWEEP, SHARD_BUCKETS_MAX);
        }
        self.place(caller)
    }
}

#[cfg(test)]
mod tests;
